"""What is written: each function is one change within a transaction."""

import json
import sqlite3
from collections.abc import Sequence

from pydantic_core import to_json

from terret_sessions import (
    LastTurn,
    SessionChangedError,
    SessionEvent,
    SessionHeader,
    last_turn,
    reason_to_wire,
)
from terret_sessions.storage import LineBlock


class Append:
    """Adds the blocks of events behind those that are stored."""

    def __init__(
        self, header: SessionHeader, events: Sequence[SessionEvent], blocks: Sequence[LineBlock]
    ) -> None:
        self._header = header
        self._first = events[0].seq
        self._end = events[-1].seq + 1
        self._blocks = blocks
        self._updated_at = events[-1].time
        self._last_turn = _encoded(last_turn(reversed(events)))

    def __call__(self, db: sqlite3.Connection) -> None:
        key, next_seq = self._place(db)
        if next_seq < self._first:
            reason = f"seq {self._first} is not next, {next_seq} is"
            raise SessionChangedError(self._header.id, reason)
        if next_seq >= self._end:
            return
        db.executemany(
            "INSERT INTO blocks VALUES (?, ?, ?)",
            [(key, *_behind(next_seq, each)) for each in self._blocks if next_seq < each.seqs.stop],
        )
        db.execute(
            "UPDATE sessions SET next_seq = ?, updated_at = ?,"
            " last_turn = coalesce(?, last_turn) WHERE key = ?",
            (self._end, self._updated_at, self._last_turn, key),
        )

    def _place(self, db: sqlite3.Connection) -> tuple[int, int]:
        header = self._header
        found = db.execute("SELECT key, next_seq FROM sessions WHERE id = ?", (header.id,))
        place: tuple[int, int] | None = found.fetchone()
        if place is not None or self._first > 0:
            return place or (0, 0)
        made = db.execute(
            "INSERT INTO sessions (id, created_at, updated_at, next_seq, header)"
            " VALUES (?, ?, ?, 0, ?)",
            (header.id, header.created_at, header.created_at, to_json(header.to_wire()).decode()),
        )
        assert made.lastrowid is not None
        return made.lastrowid, 0


class Delete:
    """Removes a session."""

    def __init__(self, session_id: str) -> None:
        self._id = session_id

    def __call__(self, db: sqlite3.Connection) -> None:
        db.execute(
            "DELETE FROM blocks WHERE session = (SELECT key FROM sessions WHERE id = ?)",
            (self._id,),
        )
        db.execute("DELETE FROM sessions WHERE id = ?", (self._id,))


def _behind(next_seq: int, block: LineBlock) -> tuple[int, bytes]:
    """First seq and lines of what is not stored of a block."""
    stored = next_seq - block.seqs.start
    if stored <= 0:
        return block.seqs.start, block.lines
    return next_seq, block.lines.split(b"\n", stored)[stored]


def _encoded(turn: LastTurn | None) -> str | None:
    if turn is None:
        return None
    end = None if turn.end is None else reason_to_wire(turn.end)
    return json.dumps([turn.number, end])
