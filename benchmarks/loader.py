"""What the configuration costs: start of the command line, check, and a change at run time.

Each row has a floor of the same run, and figures are the best of several alternating rounds.
Processor time, of this process or of whole child processes.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import anyio
import yaml
from figures import Row, report

from terret_context import Fiber
from terret_loader import Loader, open_harness

ROOT = Path(__file__).parents[1]
ROUNDS = 9
ENTRIES = 1_000

PARTS = """\
from terret_context import Config, plugin

class CountConfig(Config):
    size: int = 0
    color: str = "red"
    timeout_seconds: float = 30
    tags: list[str] = []

loads = []

@plugin(config=CountConfig)
def count(ctx, config):
    loads.append(config.size)
"""

ENTRY = """\
  entry-{number}:
    use: ./parts.py:count
    size: {size}
    color: blue
    timeoutSeconds: 12.5
    tags: [one, two]
"""

FOREIGN_MODULES = """\
import sys
from terret.__main__ import main
try:
    main(sys.argv[1:])
except SystemExit:
    for name, module in sys.modules.items():
        top = name.partition(".")[0]
        foreign = top not in sys.stdlib_module_names and not top.startswith(("terret", "_"))
        if foreign and getattr(module, "__spec__", None) is not None:
            print("import", name)
"""


def command_rows() -> Iterator[Row]:
    """Yields the whole processes of `terret --help` and `terret config check`."""
    program = [sys.executable, "-c", "from terret.__main__ import main; main()"]
    check = ["config", "check", "-c", str(ROOT / "harness.yml")]
    imports = subprocess.run(
        [sys.executable, "-c", FOREIGN_MODULES, *check], capture_output=True, text=True, check=True
    ).stdout.partition("import ")
    help_, typer = processes([*program, "--help"], [sys.executable, "-c", "import typer"])
    yield Row(name="terret --help", unit="ms", figure=help_, floor=typer, target=1.5)
    same = [sys.executable, "-c", "".join(imports[1:])]
    checked, floor = processes([*program, *check], same)
    yield Row(name="terret config check", unit="ms", figure=checked, floor=floor, target=2.0)


def processes(*commands: list[str]) -> list[float]:
    """Gives the milliseconds that each command takes of the processor."""
    best = [inf] * len(commands)
    for _ in range(ROUNDS):
        for at, command in enumerate(commands):
            before = getrusage(RUSAGE_CHILDREN)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            after = getrusage(RUSAGE_CHILDREN)
            spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            best[at] = min(best[at], spent * 1_000)
    return best


async def reconcile_row(*, moved: bool) -> Row:
    """Measures a change of one value in a file of many entries, reading it included.

    With `moved`, all lines move down too, so that nothing stands where it stood: the worst case.
    """
    reconcile = parse = inf
    with tempfile.TemporaryDirectory() as folder:
        harness = write(folder, 0, 0)
        async with open_harness(harness) as root:
            loads = loads_of(root[Loader].fiber("entry-500"))
            for size in range(1, ROUNDS + 1):
                text = write(folder, size, size if moved else 0).read_text()
                started = time.process_time()
                faults = await root[Loader].reconcile()
                reconcile = min(reconcile, time.process_time() - started)
                assert faults == ()
                assert loads[ENTRIES:] == list(range(1, size + 1))  # one restart each
                started = time.process_time()
                yaml.load(text, yaml.CSafeLoader)
                parse = min(parse, time.process_time() - started)
    name = f"reconcile {ENTRIES:,} entries{', all moved' if moved else ''}"
    target = None if moved else 1.5
    return Row(name=name, unit="ms", figure=reconcile * 1e3, floor=parse * 1e3, target=target)


def write(folder: str, size: int, comments: int) -> Path:
    """Writes a harness.yml in which one entry has the given size."""
    sizes = {500: size}
    entries = (ENTRY.format(number=n, size=sizes.get(n, 0)) for n in range(ENTRIES))
    Path(folder, "parts.py").write_text(PARTS)
    harness = Path(folder, "harness.yml")
    harness.write_text("# moves\n" * comments + "plugins:\n" + "".join(entries))
    return harness


def loads_of(fiber: Fiber | None) -> list[int]:
    """Gives the list in which the plugin notes its loads."""
    assert fiber is not None
    assert fiber.plugin is not None
    loads: list[int] = fiber.plugin.body.__globals__["loads"]
    return loads


def rows() -> Iterator[Row]:
    """Yields all rows."""
    yield from command_rows()
    for moved in (False, True):
        yield anyio.run(partial(reconcile_row, moved=moved))


if __name__ == "__main__":
    sys.exit(report(__doc__, rows()))
