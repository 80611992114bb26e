import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic_core import from_json

from terret_sessions import (
    InvalidEventError,
    LogReader,
    LosslessJsonError,
    MisplacedEventError,
    SessionCorruptionError,
    SessionEvent,
    SessionFormatUnsupportedError,
    SessionHeader,
    UnreadableRowError,
    session_header_from_wire,
)


@dataclass(frozen=True, slots=True)
class LogText:
    """What the file of a session holds.

    `size` counts the bytes up to the end of the last whole record; if `torn`, something
    incomplete stands behind it. `terminated` tells whether that record has its line break.
    """

    header: SessionHeader
    events: Sequence[SessionEvent]
    size: int
    torn: bool
    terminated: bool
    revision: str


def read_log(path: Path, session_id: str, *, start: int = 0) -> LogText | None:
    """Read a session with its events from seq `start` on; None if not even a header is whole.

    An incomplete record at the end is left out. Raises FileNotFoundError, SessionCorruptionError
    for damage before the end, SessionFormatUnsupportedError for rows of another form.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        text = _Text(path, session_id, start)
        for line in file:
            text.take(line)
    if text.header is None:
        return None
    return LogText(
        text.header,
        text.events.events,
        text.whole,
        text.whole < text.end,
        text.terminated,
        revision(status),
    )


def read_header(path: Path, row: bytes) -> SessionHeader:
    """Read the first line; raises as `read_log`."""
    try:
        data = from_json(row.removeprefix(_BOM))
    except ValueError as error:
        raise SessionCorruptionError(str(path), "line 1", f"not JSON: {error}") from None
    try:
        return session_header_from_wire(data)
    except ValueError as error:
        raise SessionFormatUnsupportedError(str(path), "line 1", str(error)) from None


def revision(status: os.stat_result) -> str:
    """A text that is another after each write."""
    return f"{status.st_size}-{status.st_mtime_ns}"


class _Text:
    """A file as far as it was read. Only LF ends a line; a crash may leave NUL bytes.

    A line that is no JSON is damage if another one follows, and else incomplete.
    """

    def __init__(self, path: Path, session_id: str, start: int) -> None:
        self.header: SessionHeader | None = None
        self.events = LogReader(start)
        self.end = self.whole = 0  # of all lines, and of those that are complete
        self.terminated = True
        self._path = path
        self._session_id = session_id
        self._number = 0
        self._before = start  # events that are not asked for
        self._damage: SessionCorruptionError | None = None

    def take(self, line: bytes) -> None:
        self._number += 1
        self.end += len(line)
        row = line.strip(_PADDING)
        if not row:
            return
        if self._damage is not None:
            raise self._damage
        try:
            if self.header is None:
                self._take_header(row)
            elif self._before:
                self._before -= 1
            else:
                self.events.add(row)
        except UnreadableRowError as error:
            self._damage = self._damaged(str(error))
        except MisplacedEventError as error:
            raise self._damaged(str(error)) from None
        except (InvalidEventError, LosslessJsonError) as error:
            place = f"line {self._number}"
            raise SessionFormatUnsupportedError(str(self._path), place, str(error)) from None
        else:
            self.whole = self.end
            self.terminated = line.endswith(b"\n")

    def _take_header(self, row: bytes) -> None:
        try:
            self.header = read_header(self._path, row)
        except SessionCorruptionError as damage:
            self._damage = damage
            return
        if self.header.id != self._session_id:
            raise self._damaged(f"this is session {self.header.id!r}")

    def _damaged(self, reason: str) -> SessionCorruptionError:
        return SessionCorruptionError(str(self._path), f"line {self._number}", reason)


_BOM: Final = b"\xef\xbb\xbf"
_PADDING: Final = b" \t\r\n\0"
