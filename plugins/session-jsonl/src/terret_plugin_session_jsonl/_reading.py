import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic_core import from_json

from terret_sessions import (
    InvalidEventError,
    LosslessJsonError,
    SessionCorruptionError,
    SessionEvent,
    SessionFormatUnsupportedError,
    SessionHeader,
    event_from_json,
    session_header_from_wire,
)


@dataclass(frozen=True, slots=True)
class LogText:
    """What the file of a session holds.

    `size` counts the bytes up to the end of the last whole record; if `torn`, something
    incomplete stands behind it. `terminated` tells whether that record has its line break.
    """

    header: SessionHeader
    events: tuple[SessionEvent, ...]
    size: int
    torn: bool
    terminated: bool
    revision: str


def read_log(path: Path, session_id: str, *, start: int = 0) -> LogText | None:
    """Read a session with its events from seq `start` on; None if not even a header is whole.

    An incomplete record at the end is left out. Raises FileNotFoundError, SessionCorruptionError
    for damage before the end, SessionFormatUnsupportedError for rows of another form.
    """
    status = path.stat()
    text = path.read_bytes()
    rows = list(_rows(text))
    if rows and not _is_json(rows[-1].text):
        rows.pop()
    if not rows:
        return None
    header = read_header(path, rows[0].text)
    if header.id != session_id:
        raise SessionCorruptionError(str(path), "line 1", f"this is session {header.id!r}")
    events = tuple(_event(path, row, seq) for seq, row in enumerate(rows[1:]) if seq >= start)
    last = rows[-1]
    torn = last.end < len(text)
    return LogText(header, events, last.end, torn, last.terminated, revision(status))


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


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    end: int
    text: bytes
    terminated: bool


def _rows(text: bytes) -> Iterator[_Row]:
    """The lines that are not blank. Only LF ends a line; a crash may leave NUL bytes."""
    number = start = 0
    while start < len(text):
        number += 1
        stop = text.find(b"\n", start)
        terminated = stop >= 0
        end = stop + 1 if terminated else len(text)
        row = text[start:end].strip(b" \t\r\n\0")
        if row:
            yield _Row(number, end, row, terminated)
        start = end


def _event(path: Path, row: _Row, seq: int) -> SessionEvent:
    place = f"line {row.number}"
    try:
        event = event_from_json(row.text)
    except (InvalidEventError, LosslessJsonError) as error:
        if _is_json(row.text):
            raise SessionFormatUnsupportedError(str(path), place, str(error)) from None
        raise SessionCorruptionError(str(path), place, str(error)) from None
    if event.seq != seq:
        reason = f"seq {event.seq} stands where {seq} is next"
        raise SessionCorruptionError(str(path), place, reason)
    return event


def _is_json(row: bytes) -> bool:
    try:
        from_json(row.removeprefix(_BOM))
    except ValueError:
        return False
    return True


_BOM: Final = b"\xef\xbb\xbf"
