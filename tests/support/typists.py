"""The program at a terminal, and somebody who sits there."""

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
_PATIENCE = 30


class Typist:
    """Reads what the terminal shows, and types."""

    def __init__(self, process: "subprocess.Popen[bytes]", terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._raw = b""
        self._seen = 0

    def see(self, text: str) -> str:
        """Waits until the terminal shows a text, and returns what came with it since last time."""
        deadline = time.monotonic() + _PATIENCE
        while (at := self._shown().find(text, self._seen)) < 0:
            assert time.monotonic() < deadline, self._shown()[self._seen :]
            assert self._read(), f"no {text!r} in {self._shown()[self._seen :]!r}"
        start, self._seen = self._seen, at + len(text)
        return self._shown()[start : self._seen]

    def type(self, text: str) -> None:
        """Types a text; `\\x03` is Ctrl-C, `\\x04` Ctrl-D."""
        os.write(self._terminal, text.encode())

    def end(self) -> tuple[int, str]:
        """Waits for the end; returns the exit code and what the terminal showed since last time."""
        while self._read():
            continue
        return self.process.wait(_PATIENCE), self._shown()[self._seen :]

    def _read(self) -> bool:
        if not select.select([self._terminal], [], [], _PATIENCE)[0]:
            return False
        try:
            more = os.read(self._terminal, 65_536)
        except OSError:  # nobody has the other end open any more
            more = b""
        self._raw += more
        return bool(more)

    def _shown(self) -> str:
        return _ESCAPES.sub(b"", self._raw).decode(errors="replace")


@contextmanager
def at_terminal(
    folder: Path,
    *words: str,
    stdout: int | None = None,
    program: Sequence[str] = (sys.executable, "-m", "terret"),
) -> Iterator[Typist]:
    """Runs a program, by default `terret`, in a folder, at a terminal of its own.

    Standard output is that terminal too, unless it is given.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*program, *words],
        cwd=folder,
        stdin=theirs,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        yield Typist(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
