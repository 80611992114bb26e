"""Standard output, kept for what was asked for."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from typing import TextIO

from ._errors import FAILED, CommandError
from ._printing import printable, say, width_of
from ._wrapping import Wrapping

_ERASE = "\r\x1b[K"


class Output:
    """Where an answer goes, at once; `broken` is called if nobody reads it any more."""

    def __init__(self, stream: TextIO, broken: Callable[[], object] = lambda: None) -> None:
        self.is_broken = False
        self.is_terminal = stream.isatty()
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal has no character for
        self._stream = stream
        self._broken = broken
        self._mid_line = False
        self._is_hinting = False
        self._wrapping = Wrapping(lambda: width_of(stream))

    def stream(self, piece: str) -> None:
        """Writes a piece of a text; on a terminal, in lines that break between words."""
        self.write(self._wrapping.feed(piece) if self.is_terminal else piece)

    def hint(self, text: str) -> None:
        """Shows a word on a terminal until something else is written there."""
        if self.is_terminal and not self._mid_line and os.environ.get("TERM") != "dumb":
            self._put(text)
            self._is_hinting = True

    def write(self, text: str) -> None:
        """Writes a text; what could do harm to a terminal does not reach one."""
        if text:
            self._put(printable(text) if self.is_terminal else text)
            self._mid_line = not text.endswith("\n")

    def end_line(self) -> None:
        """Begins a new line, unless one has just begun; what was streamed is over."""
        self.write(self._wrapping.end())
        if self._mid_line:
            self.write("\n")
        elif self._is_hinting:
            self._put("")

    def _put(self, text: str) -> None:
        if self.is_broken:
            return
        erase, self._is_hinting = _ERASE if self._is_hinting else "", False
        try:
            self._stream.write(erase + text)
            self._stream.flush()
        except OSError as error:
            self.is_broken = True
            if not isinstance(error, BrokenPipeError):
                say(f"terret: standard output: {error}")
            self._broken()


@contextmanager
def reserved_stdout(encoding: str | None = None) -> Iterator[TextIO]:
    """Gives standard output to the block alone.

    What plugins, tools and processes of theirs write there goes to standard error meanwhile.
    """
    out = sys.stdout
    if out is None:
        raise CommandError("standard output is closed", code=FAILED)
    with ExitStack() as undo:
        undo.enter_context(redirect_stdout(sys.stderr))
        with suppress(OSError, AttributeError):  # in memory, or not there
            files = out.fileno(), sys.stderr.fileno()
            out.flush()
            out = open(os.dup(files[0]), "w", encoding=encoding or out.encoding)  # noqa: SIM115
            undo.callback(_close, out)
            undo.callback(os.dup2, out.fileno(), files[0])
            os.dup2(files[1], files[0])
        yield out


def _close(stream: TextIO) -> None:
    with suppress(OSError):  # what nobody reads
        stream.close()
