"""The terminal: where people are asked, whatever standard input and output are."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TextIO

from ._lines import Lines
from ._printing import printable, width_of

TERMINAL = "/dev/tty"


class Asker(Protocol):
    """Somebody who can be asked."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person sits there, as far as one can know."""
        ...

    @property
    def width(self) -> int:
        """How many characters fit on a line."""
        ...

    def write(self, text: str) -> None:
        """Shows a text."""
        ...

    async def ask(self, prompt: str) -> str | None:
        """Returns the line that somebody types now, `None` if nobody ever will."""
        ...


class Terminal:
    """An output, and the input that belongs to it."""

    def __init__(self, lines: Lines, out: TextIO, *, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self._lines = lines
        self._out = out

    @property
    def width(self) -> int:
        """How many characters fit on a line."""
        return width_of(self._out)

    def write(self, text: str) -> None:
        """Shows a text."""
        self._out.write(printable(text))
        self._out.flush()

    async def ask(self, prompt: str) -> str | None:
        """Returns the next line that somebody types; what was typed before does not count."""
        forget_typed(self._out)
        self.write(prompt)
        return await self._lines.read()


@contextmanager
def open_terminal() -> Iterator[Terminal | None]:
    """Gives the controlling terminal; `None` if there is none that this process may read."""
    try:
        found = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError:
        yield None
        return
    with open(found, "w", encoding="utf-8", errors="replace") as file:
        yield Terminal(Lines(file), file, is_terminal=True) if _is_in_front(file) else None


def standard_terminal() -> Terminal:
    """Returns standard error and standard input, which may be no terminal."""
    both = (sys.stdin, sys.stderr)
    is_terminal = all(each is not None and each.isatty() and _is_in_front(each) for each in both)
    return Terminal(Lines(sys.stdin), sys.stderr, is_terminal=is_terminal)


def _is_in_front(terminal: TextIO) -> bool:
    """Whether this process may read there; one in the background would be stopped."""
    try:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, AttributeError):  # a terminal without jobs
        return True


def forget_typed(terminal: TextIO) -> None:
    """Drops what was typed before it was asked for, so that it answers nothing by accident."""
    try:
        import termios
    except ImportError:  # not on this system
        return
    with suppress(termios.error, OSError):  # no terminal
        termios.tcflush(terminal.fileno(), termios.TCIFLUSH)
