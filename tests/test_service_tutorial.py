"""The walk of the tutorial, as it is written: its files, its commands and what they print."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from end_to_end import ROOT, ChatServer
from programs import free_port

PAGE = ROOT / "docs" / "tutorial" / "first-service.md"
BLOCK = re.compile(r"(?:`(?P<path>\S+)`:\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
VARIES = [
    (r'"id": ?"[^"]+"', '"id":"..."'),
    (r'"(usedTokens|budgetTokens|ratio)":[0-9.]+', r'"\1":0'),
    (r"(?m)^id: \d+\.\d+$", "id: 0.0"),
]
MARK = "-- end of block --"
PATIENCE = 60


class Block(NamedTuple):
    """A piece of the page: a file with its path, commands, or what they print."""

    kind: str
    text: str
    path: str | None


def blocks() -> Iterator[Block]:
    for found in BLOCK.finditer(PAGE.read_text("utf-8")):
        kind = "file" if found["path"] else found["kind"]
        yield Block(kind, found["text"], found["path"])


def script(model: str, port: int) -> str:
    """The commands of the page, with its files in their places and the model of the test."""
    local = f'llm-local: {{use: llm-openai, provider: local, baseUrl: "{model}", model: test}}'
    parts = []
    for block in blocks():
        if block.kind == "sh":
            parts.append(f"{block.text}echo; echo '{MARK}'\n")
        if block.kind == "file":
            parts.append(f"mkdir -p $(dirname {block.path})\n")
            parts.append(f"cat > {block.path} << 'EOF'\n{block.text}EOF\n")
    parts.insert(1, f"sed -i 's|llm-local: {{}}|{local}|' harness.yml\n")
    return "set -u\n" + "".join(parts).replace("8787", str(port))


def plain(text: str) -> str:
    for pattern, same in VARIES:
        text = re.sub(pattern, same, text)
    return text.strip()


def shown() -> list[str]:
    """What the page says that each block of commands prints; nothing where it does not say."""
    found: list[str] = []
    for block in blocks():
        if block.kind == "sh":
            found.append("")
        elif block.kind in ("text", "json"):
            found[-1] = block.text
    return found


def agrees(expected: str, printed: str) -> bool:
    """Whether the page shows what was printed; a line of dots stands for any lines."""
    parts = map(re.escape, plain(expected).split("\n...\n"))
    return re.fullmatch(r"\n(?:.*\n)*".join(parts), plain(printed)) is not None


def examples() -> set[str]:
    """The events that any page shows."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = (plain(page.read_text("utf-8")) for page in pages)
    return {line for text in texts for line in re.findall(r"^data: .*$", text, re.M)}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**kept, "PATH": path}


@pytest.mark.skipif(os.name == "nt", reason="the commands are those of a POSIX shell")
def test_the_tutorial_does_what_it_says(
    tmp_path: Path, chat_server: ChatServer, environment: dict[str, str]
) -> None:
    """E-127, E-344, E-554: From an empty folder to a service that survives."""
    port = free_port()
    with subprocess.Popen(
        ["bash", "-c", script(chat_server.url("shop"), port)],
        cwd=tmp_path,
        env={**environment, "TERRET_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        with suppress(subprocess.TimeoutExpired):
            shell.wait(PATIENCE)
        with suppress(ProcessLookupError):  # nothing that it started is left
            os.killpg(shell.pid, signal.SIGKILL)
        out, err = shell.communicate()
    log = "".join(path.read_text() for path in tmp_path.glob("*/serve.log"))
    *printed, rest = out.split(f"\n{MARK}\n")
    assert (shell.returncode, rest) == (0, ""), f"{out}\n{err}\n{log}"
    for expected, actual in zip(shown(), printed, strict=True):
        assert not expected or agrees(expected, actual), f"expected:\n{expected}\ngot:\n{actual}"
    recorded = plain("\n".join(printed)).split("\n")
    assert examples() - set(recorded) == set()
