"""What can be wrong with a harness, and where."""

import importlib
import os
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio

import terret_context
from terret_context import TerretError

_MACHINERY: Final = (
    "<frozen",
    *(
        f"{Path(file).parent}{os.sep}"
        for file in (importlib.__file__, anyio.__file__, terret_context.__file__, __file__)
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something that gives values: a file, a flag, a running program, the defaults."""

    label: str
    """How a message names it, such as `harness.yml` or `--set`."""
    folder: Path
    """Where its relative paths begin."""
    order: int = 0
    """Its place among the sources of one document."""
    positions: bool = True
    """Whether line and column mean something to the reader."""
    preset: str = ""
    """The name by which `extends` found it, if it is a preset."""

    @classmethod
    def of_file(cls, path: Path, *, order: int = 0, preset: str = "") -> "Source":
        """Makes the source of a file, named as seen from the working directory."""
        absolute = Path(os.path.abspath(path))
        below = absolute.is_relative_to(Path.cwd())
        label = absolute.relative_to(Path.cwd()) if below else absolute
        return cls(label=str(label), folder=absolute.parent, order=order, preset=preset)

    @property
    def whole(self) -> "Origin":
        """The origin of what concerns all of it."""
        return Origin(self)


@dataclass(frozen=True, slots=True)
class Origin:
    """The place a value comes from. Line and column count from 1; line 0 means the whole source."""

    source: Source
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line or not self.source.positions:
            return self.source.label
        return f"{self.source.label}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong. `str(fault)` is its line: `FILE:LINE:COL PATH: message`."""

    origin: Origin
    message: str
    path: str = ""
    """The path of the value as spelled in its file, such as `plugins.bash.timeout`."""
    entry: str | None = None
    """Path of the entry it concerns; `None` if it concerns the document."""
    optional: bool = False
    """Whether the harness may start without this entry."""
    error: Exception | None = field(default=None, compare=False)
    """The exception behind it."""
    details: str = field(default="", compare=False, repr=False)
    """The traceback of the exception, for those who ask for it."""

    def __str__(self) -> str:
        place = f"{self.origin} {self.path}" if self.path else str(self.origin)
        return f"{place}: {self.message}"


class HarnessConfigError(TerretError, ValueError):
    """A harness cannot start. `str(error)` is one line per fault, in file order."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = in_file_order(faults)
        super().__init__("\n".join(map(str, self.faults)))


def in_file_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    unique = dict.fromkeys(faults)
    return tuple(
        sorted(unique, key=lambda f: (f.origin.source.order, f.origin.line, f.origin.column))
    )


def traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def one_line(error: BaseException) -> str:
    """Gives type and message of an exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def with_place(error: BaseException, within: str = "") -> str:
    """Gives type, message and the innermost line that belongs to the failing module's folder.

    The file is left out if the text around it, `within`, names it.
    """
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(with_place(member, within) for member in error.exceptions)
    if isinstance(error, SyntaxError):
        place = _place(error.filename, error.lineno, within)
        return f"{type(error).__name__}: {error.msg} ({place})"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_MACHINERY)
    ]
    if not frames or isinstance(error, TerretError):
        return one_line(error)
    folder = Path(frames[0].filename).parent
    frame = next(f for f in reversed(frames) if folder in Path(f.filename).parents)
    return f"{one_line(error)} ({_place(frame.filename, frame.lineno, within)})"


def _place(file: str | None, line: int | None, within: str) -> str:
    path = Path(file or "?")
    if path.name in within:
        return f"line {line}"
    name = f"{path.parent.name}/{path.name}" if path.name == "__init__.py" else path.name
    return f"{name}, line {line}"
