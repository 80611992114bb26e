import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

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

Unreadable = SessionCorruptionError | SessionFormatUnsupportedError


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
        text.read(file)
    if text.header is None:
        return None
    return LogText(
        text.header,
        text.log.events,
        text.whole,
        text.whole < text.end,
        text.terminated,
        revision(status),
    )


def read_header(path: Path, row: bytes) -> SessionHeader:
    """Read the first line; raises as `read_log`."""
    try:
        return _header_of(row)
    except InvalidEventError as error:
        raise _fault(path, 1, error) from None


def revision(status: os.stat_result) -> str:
    """A text that is another after each write."""
    return f"{status.st_size}-{status.st_mtime_ns}"


class _Text:
    """A file as far as it was read. Only LF ends a line; a crash may leave NUL bytes.

    A line that is no JSON is damage if another one follows, and else incomplete.
    """

    def __init__(self, path: Path, session_id: str, start: int) -> None:
        self.header: SessionHeader | None = None
        self.log = LogReader(start)
        self.end = self.whole = 0  # of all lines, and of those that are complete
        self.terminated = True
        self._path = path
        self._session_id = session_id
        self._before = start  # events that are not asked for
        self._lines = 0
        self._unreadable: Unreadable | None = None

    def read(self, file: BinaryIO) -> None:
        while lines := file.readlines(_BYTES_AT_ONCE):
            end = next((n for n, line in enumerate(lines, 1) if not line.endswith(b"\n")), None)
            if end is not None:
                del lines[end:]  # a writer has gone on behind what was the end of the file
            at = 0
            while at < len(lines):
                taken = self._take_events(lines, at)
                if not taken:
                    self._take_line(lines[at])
                at += taken or 1
            if end is not None:
                return

    def _take_events(self, lines: list[bytes], at: int) -> int:
        """Take lines up to the first that has to be looked at by itself; tells how many."""
        if self.header is None or self._before or self._unreadable is not None:
            return 0
        first = self.log.next_seq
        with suppress(InvalidEventError, LosslessJsonError):
            self.log.extend(lines[at:])
        taken = self.log.next_seq - first
        if taken:
            self._lines += taken
            self.end += sum(map(len, lines[at : at + taken]))
            self._is_whole(lines[at + taken - 1])
        return taken

    def _take_line(self, line: bytes) -> None:
        self._lines += 1
        self.end += len(line)
        row = line.strip(_PADDING)
        if not row:
            return
        if self._unreadable is not None:
            raise self._unreadable
        try:
            self._take_row(row)
        except UnreadableRowError as error:
            self._unreadable = _fault(self._path, self._lines, error)
        except (InvalidEventError, LosslessJsonError) as error:
            raise _fault(self._path, self._lines, error) from None
        else:
            self._is_whole(line)

    def _take_row(self, row: bytes) -> None:
        if self.header is None:
            header = _header_of(row)
            if header.id != self._session_id:
                raise MisplacedEventError("header", f"this is session {header.id!r}")
            self.header = header
        elif self._before:
            self._before -= 1
        else:
            self.log.add(row)

    def _is_whole(self, line: bytes) -> None:
        self.whole, self.terminated = self.end, line.endswith(b"\n")


def _header_of(row: bytes) -> SessionHeader:
    try:
        data = from_json(row.removeprefix(_BOM))
    except ValueError as error:
        raise UnreadableRowError("header", f"not JSON: {error}") from None
    try:
        return session_header_from_wire(data)
    except ValueError as error:
        raise InvalidEventError("header", str(error)) from None


def _fault(path: Path, number: int, error: InvalidEventError | LosslessJsonError) -> Unreadable:
    place = f"line {number}"
    if isinstance(error, UnreadableRowError | MisplacedEventError):
        return SessionCorruptionError(str(path), place, str(error))
    return SessionFormatUnsupportedError(str(path), place, str(error))


_BOM: Final = b"\xef\xbb\xbf"
_PADDING: Final = b" \t\r\n\0"
_BYTES_AT_ONCE: Final = 1 << 20
