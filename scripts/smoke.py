"""Use the wheels, not the tree: build all, install into an empty environment, run there."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from workspace import ROOT, members, root_pyproject

ECHO: Final = """
from terret_context import Context, plugin
from terret_llm import BlockEnd, BlockStart, Finish, FinishChunk
from terret_llm import Llm, LlmAdapter, TextBlock, TextDelta


class EchoAdapter(LlmAdapter):
    async def stream(self, request):
        text = request.messages[-1].text
        yield BlockStart(0, "text")
        yield TextDelta(0, text)
        yield BlockEnd(0, TextBlock(text))
        yield FinishChunk(Finish.stop())


@plugin(inject=(Llm,))
def echo(ctx: Context) -> None:
    ctx[Llm].register_adapter("echo", EchoAdapter())
"""

HARNESS: Final = """
plugins:
  llm: {}
  sessions: {}
  system-prompt: {}
  agents: {}
  tools: {}
  session-jsonl: {}
  tools-demo: {}
  echo: {use: ./echo.py}
  agent-loop: {agents: [{id: main, provider: echo, model: echo}]}
"""


def main() -> None:
    """Build, install `terret` alone, run it, then add and import every other distribution."""
    with tempfile.TemporaryDirectory(prefix="terret-smoke-") as name:
        place = Path(name)
        wheels, python = place / "wheels", place / "env" / "bin" / "python"
        run(["uv", "build", "--quiet", "--all-packages", "--wheel", "-o", str(wheels)], cwd=ROOT)
        run(["uv", "venv", "--quiet", "--python", sys.executable, str(place / "env")], cwd=place)
        install(["terret"], python, wheels)
        use_terret(python, place)
        install([member.distribution for member in members()], python, wheels)
        run(
            [str(python), "-I", "-c", "; ".join(f"import {m.module}" for m in members())], cwd=place
        )
    print("wheels: ok")


def install(names: Sequence[str], python: Path, wheels: Path) -> None:
    """Install our wheels, and from the index what they need, as old as the workspace has it."""
    project = root_pyproject()
    version, newest = project["project"]["version"], project["tool"]["uv"]["exclude-newer"]
    # A local version of one of our names in `wheels` wins over the index; the pin keeps it exact.
    pinned = [f"{name}=={version}" for name in names]
    options = [
        "--quiet",
        "--python",
        str(python),
        "--find-links",
        str(wheels),
        "--exclude-newer",
        newest,
    ]
    run(["uv", "pip", "install", *options, *pinned], cwd=wheels)


def use_terret(python: Path, place: Path) -> None:
    """Run the installed command line, and with it an agent."""
    terret = str(python.parent / "terret")
    run([terret, "--version"], cwd=place)
    run([terret, "plugin", "list"], cwd=place)
    (place / "echo.py").write_text(ECHO, "utf-8")
    (place / "harness.yml").write_text(HARNESS, "utf-8")
    run([terret, "config", "check"], cwd=place)
    answer = run([terret, "run", "Is anybody there?"], cwd=place)
    assert answer == "Is anybody there?\n", answer
    run([terret, "init", "project"], cwd=place)
    explained = run([terret, "explain", "--root", "project"], cwd=place)
    assert explained.endswith(" entries run\n"), explained


def run(command: Sequence[str], *, cwd: Path) -> str:
    """Run a command, shown with what it prints; its failure ends the test."""
    print("$", " ".join(command).replace(str(cwd), "."), flush=True)
    done = subprocess.run(
        command, cwd=cwd, check=True, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE
    )
    print(done.stdout, end="", flush=True)
    return done.stdout


if __name__ == "__main__":
    main()
