"""Lines on the terminal."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

import typer

from terret_loader import EntryChange

_WIDTH = 200
_HARMFUL = (  # control characters, and those that turn the direction of writing
    *(set(range(0x20)) - {0x09, 0x0A}),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
_ESCAPES = {code: f"\\u{code:04x}" for code in _HARMFUL}


def printable(text: str) -> str:
    """Returns a text that changes nothing on a terminal but adds characters and lines."""
    return text.translate(_ESCAPES)


def say(text: str) -> None:
    """Prints a line on standard error."""
    typer.echo(text, err=True)


def say_change(change: EntryChange) -> None:
    """Says which entry of the configuration follows a change of the file."""
    entry = change.entry or change.previous
    if entry is not None:
        done = "removed" if change.entry is None else "changed" if change.previous else "added"
        say(f"{entry.path}: {done}")


def end_typed_line() -> None:
    """Leaves the line on which a terminal shows that Ctrl-C was typed."""
    if sys.stderr.isatty():
        say("")


def note(text: str, *, failed: bool = False) -> None:
    """Prints a line on standard error that need not be read whole, cut at its width."""
    line = shorten(printable(text), width_of(sys.stderr))
    typer.secho(line, err=True, fg="red" if failed else None, dim=not failed)


def width_of(stream: TextIO) -> int:
    """Returns how many characters fit on a line of a terminal; many on what is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def shorten(text: str, width: int = _WIDTH) -> str:
    """Returns a text as one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."


def counted(number: int, what: str) -> str:
    """Returns how many there are of something, such as `2 turns`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def columns(rows: Iterable[Sequence[str]], *, widest: int = 60) -> Iterable[str]:
    """Returns rows as lines with aligned cells; a cell wider than `widest` aligns nothing."""
    table = list(rows)
    widths = [
        max((len(cell) for cell in column if len(cell) <= widest), default=0)
        for column in zip(*table, strict=True)
    ]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
