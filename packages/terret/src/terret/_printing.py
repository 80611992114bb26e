"""Lines on the terminal."""

from collections.abc import Iterable, Sequence

import typer

_WIDTH = 200


def say(text: str) -> None:
    """Prints a line on standard error."""
    typer.echo(text, err=True)


def shorten(text: str) -> str:
    """Returns a text as one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."


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
