"""Sessions that are kept in memory, for tests of what happens over restarts."""

from collections.abc import AsyncIterator, Sequence

from terret_context import Context, Plugin, plugin
from terret_sessions import (
    SESSION_PERSISTENCE,
    SessionCoordinator,
    SessionEvent,
    SessionHeader,
    Sessions,
    SessionSnapshot,
    SessionStorage,
    StoredLog,
    event_from_json,
    event_row,
)


class MemorySessions(SessionStorage):
    """A storage of sessions that outlives the harnesses of a test.

    `harness(plugins=[kept.plugin])` mounts it as the persistence of sessions.

    Attributes:
        rows: The stored events of each session, as JSON lines; cut some off to act a crash.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[bytes]] = {}
        self._headers: dict[str, SessionHeader] = {}

    @property
    def plugin(self) -> Plugin:
        """The plugin that provides this storage."""

        @plugin(name="memory-sessions", inject=(Sessions,), provides=(SESSION_PERSISTENCE,))
        async def memory_sessions(ctx: Context) -> AsyncIterator[None]:
            async with SessionCoordinator(ctx, self, window=0) as coordinator:
                ctx.provide(SESSION_PERSISTENCE, coordinator)
                yield

        return memory_sessions

    async def load_stored(self, id: str) -> StoredLog | None:
        """See `SessionStorage`."""
        if id not in self.rows:
            return None
        events = tuple(event_from_json(row) for row in self.rows[id])
        return StoredLog(self._headers[id], events, str(len(events)))

    async def read_stored_revision(self, id: str) -> str | None:
        """See `SessionStorage`."""
        return str(len(self.rows[id])) if id in self.rows else None

    async def append_batch(
        self,
        header: SessionHeader,
        events: Sequence[SessionEvent],
        *,
        materialized: bool,
        durable: bool = False,
    ) -> None:
        """See `SessionStorage`."""
        self._headers[header.id] = header
        rows = self.rows.setdefault(header.id, [])
        rows += [event_row(event) for event in events if event.seq >= len(rows)]

    async def commit_repair(
        self, header: SessionHeader, torn_marker: object | None, closers: Sequence[SessionEvent]
    ) -> None:
        """See `SessionStorage`."""
        self.rows[header.id] += [event_row(event) for event in closers]

    async def delete(self, id: str) -> None:
        """See `SessionStorage`."""
        del self.rows[id], self._headers[id]

    async def list(self) -> tuple[SessionSnapshot, ...]:
        """See `SessionStorage`."""
        return tuple(
            SessionSnapshot(self._headers[id], str(len(rows)), event_from_json(rows[-1]).time)
            for id, rows in self.rows.items()
        )
