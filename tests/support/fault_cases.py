"""The recorded exchanges and the fault cases that are kept beside the project."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

DATA = Path(__file__).parents[3] / "shared" / "data"
FAULTS = DATA / "faults"
RECORDED = DATA / "recorded"

CODES = {
    "transport": {"TRANSPORT"},
    "timeout": {"TIMEOUT"},
    "incomplete": {"STREAM_CLOSED", "EMPTY_RESPONSE"},
    "protocol": {"MALFORMED_RESPONSE"},
    "provider": {"SERVER"},
    "overloaded": {"SERVER"},
    "auth": {"AUTH"},
    "invalid_request": {"INVALID_REQUEST"},
}
"""The codes of Terret for the neutral names of the cases."""

FINISHES = {
    "stop": "stop",
    "tool_calls": "tool-calls",
    "length": "max-tokens",
    "content_filter": "content-filter",
    "pause": "pause",
    "error": "error",
    "incomplete": "error",
}
"""The kinds of finish of Terret for the neutral names of the cases."""


def rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one a line; none if the file is not here."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def fault_cases(*prefixes: str) -> list[dict[str, Any]]:
    """The cases whose name begins with one of these."""
    return [
        row for row in rows(FAULTS / "cases" / "index.jsonl") if row["name"].startswith(prefixes)
    ]


def recorded_exchanges(dialect: str) -> list[dict[str, Any]]:
    """The recorded answers of one dialect with what they must give."""
    return [row for row in rows(RECORDED / "expect.jsonl") if row["dialect"] == dialect]


def cuts(body: bytes) -> dict[str, list[int]]:
    """Where to cut a body: everywhere, inside characters, between CR and LF, every seven bytes."""
    size = len(body)
    return {
        "whole": [],
        "bytes": list(range(1, size)),
        "characters": [n for n in range(1, size) if body[n] & 0xC0 == 0x80],
        "line ends": [n for n in range(1, size) if body[n - 1 : n + 1] == b"\r\n"],
        "seven": list(range(7, size, 7)),
    }


def pieces(body: bytes, at: list[int]) -> Iterator[bytes]:
    """The body, cut at these places."""
    for start, end in zip([0, *at], [*at, len(body)], strict=True):
        yield body[start:end]


class ReplayServers:
    """The servers of the cases: one for each way to cut a body, started when it is needed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._urls: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def url(self, plan: str) -> str:
        """The address of the server that cuts so."""
        if plan not in self._urls:
            self._urls[plan] = self._stack.enter_context(replay_server(plan))
        return self._urls[plan]


@contextmanager
def replay_server(plan: str | None = None) -> Iterator[str]:
    """Runs the server of the cases in a process of its own and yields its address."""
    arguments = ["--plan", plan] if plan else []
    command = [sys.executable, str(FAULTS / "replay.py"), "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().rstrip().rstrip(")").rsplit(",", 1)[1]
            yield f"http://127.0.0.1:{int(port)}"
        finally:
            process.kill()
