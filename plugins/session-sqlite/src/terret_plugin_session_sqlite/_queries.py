"""What is read: each function sees one state of the database."""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic_core import from_json

from terret_sessions import (
    InvalidEventError,
    LastTurn,
    LogReader,
    LosslessJsonError,
    MisplacedEventError,
    SessionCorruptionError,
    SessionEvent,
    SessionFormatUnsupportedError,
    SessionHeader,
    SessionSnapshot,
    StoredLog,
    UnreadableRowError,
    reason_from_wire,
    session_header_from_wire,
)


def read_log(db: sqlite3.Connection, path: Path, session_id: str) -> StoredLog | None:
    """A whole session."""
    found = _find(db, session_id)
    if found is None:
        return None
    key, next_seq, header = found
    read = _read_header(path, f"session {session_id!r}", header)
    events = _read_events(db, path, session_id, key, range(next_seq))
    return StoredLog(read, events, _revision(key, next_seq))


def read_suffix(
    db: sqlite3.Connection, path: Path, session_id: str, seq: int
) -> Sequence[SessionEvent] | None:
    """The events of a session from `seq` on."""
    found = _find(db, session_id)
    if found is None:
        return None
    key, next_seq, _ = found
    return _read_events(db, path, session_id, key, range(seq, next_seq))


def read_revision(db: sqlite3.Connection, session_id: str) -> str | None:
    found = _find(db, session_id)
    return None if found is None else _revision(*found[:2])


def read_text(db: sqlite3.Connection, session_id: str) -> bytes | None:
    """A session as JSON lines: its header, and one event a line."""
    found = _find(db, session_id)
    if found is None:
        return None
    blocks = db.execute("SELECT lines FROM blocks WHERE session = ? ORDER BY first", found[:1])
    return b"".join((found[2], b"\n", *(lines for (lines,) in blocks)))


def read_list(db: sqlite3.Connection, path: Path) -> tuple[SessionSnapshot, ...]:
    """All sessions, oldest first; one that cannot be read is left out with a warning."""
    return tuple(_snapshots(db, path))


def _snapshots(db: sqlite3.Connection, path: Path) -> Iterator[SessionSnapshot]:
    rows = db.execute(
        "SELECT key, id, next_seq, updated_at, last_turn, header FROM sessions"
        " WHERE next_seq > 0 ORDER BY created_at, id"
    )
    for key, id, next_seq, updated_at, turn, header in rows:
        try:
            read = _read_header(path, f"session {id.decode()!r}", header)
            last = None if turn is None else _read_turn(turn)
        except (SessionFormatUnsupportedError, ValueError) as error:
            log.warning("session left out of the list: %s", error)
        else:
            yield SessionSnapshot(read, _revision(key, next_seq), updated_at, last)


def _find(db: sqlite3.Connection, session_id: str) -> tuple[int, int, bytes] | None:
    found: tuple[int, int, bytes] | None = db.execute(
        "SELECT key, next_seq, header FROM sessions WHERE id = ? AND next_seq > 0", (session_id,)
    ).fetchone()
    return found


def _read_events(
    db: sqlite3.Connection, path: Path, session_id: str, key: int, seqs: range
) -> Sequence[SessionEvent]:
    reader = LogReader(seqs.start)
    try:
        for first, lines in db.execute(_BLOCKS, (key, seqs.start)):
            reader.extend(lines.splitlines(keepends=True)[max(0, seqs.start - first) :])
        if reader.next_seq < seqs.stop:
            raise MisplacedEventError("event", f"it is missing, and so is all up to {seqs[-1]}")
    except (InvalidEventError, LosslessJsonError) as error:
        place = f"session {session_id!r}, seq {reader.next_seq}"
        damaged = isinstance(error, UnreadableRowError | MisplacedEventError)
        fault = SessionCorruptionError if damaged else SessionFormatUnsupportedError
        raise fault(str(path), place, str(error)) from None
    return reader.events


def _read_header(path: Path, place: str, header: bytes) -> SessionHeader:
    try:
        return session_header_from_wire(from_json(header))
    except ValueError as error:
        raise SessionFormatUnsupportedError(str(path), place, str(error)) from None


def _read_turn(text: bytes) -> LastTurn:
    number, end = from_json(text)
    return LastTurn(number, None if end is None else reason_from_wire(end))


def _revision(key: int, next_seq: int) -> str:
    return f"{key}-{next_seq}"


log: Final = logging.getLogger(__name__)
_BLOCKS: Final = """
    SELECT first, lines FROM blocks WHERE session = ?1 AND first >= coalesce(
        (SELECT max(first) FROM blocks WHERE session = ?1 AND first <= ?2), 0
    ) ORDER BY first
"""
