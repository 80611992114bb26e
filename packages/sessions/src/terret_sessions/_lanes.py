import logging
from collections.abc import Sequence
from operator import eq
from typing import Final, final

import anyio

from ._errors import (
    InvalidEventError,
    SessionChangedError,
    SessionConflictError,
    SessionNotFoundError,
)
from ._events import SessionEvent
from ._headers import SessionHeader
from ._persistence import SessionLog, SessionStorage, StoredLog
from ._repair import repair_closers
from ._session import Session
from ._views import log_of


@final
class Lane:
    """The one queue of a session id: how much of the log is stored, and who is at the storage.

    What waits is not copied: it is the part of the session's log behind `stored`. So a write that
    failed keeps its events in order, and the next one takes them along.
    """

    def __init__(self, id: str, storage: SessionStorage, before: "Lane | None" = None) -> None:
        self.id = id
        self.session: Session | None = None
        self.published = False
        self.claimed = False
        self.failed = False
        self.window_open = False
        self.gone = anyio.Event()
        self._storage = storage
        self._before = before
        self._io = anyio.Lock(fast_acquire=True)
        self._retirement = anyio.Lock(fast_acquire=True)
        self._stored = 0
        self._synced = 0
        self._open = False
        self._stale = False

    @property
    def waiting(self) -> bool:
        """Whether the log has events that are not stored."""
        return self.session is not None and self._stored < len(self.session.events)

    @property
    def accepted(self) -> bool:
        """Whether the session was announced and not refused; else nothing of it is stored."""
        return self.session is not None and self.session.announced

    async def write(self, *, durable: bool = False) -> None:
        """Write what waits now as one batch."""
        async with self._io:
            session = self.session
            if session is None or not self.waiting or self.gone.is_set():
                return
            try:
                await self._store(session, durable=durable)
            except SessionChangedError as error:
                log.warning("%s; what is missing is written again", error)
                self._distrust()
                await self._store(session, durable=durable)
            self.failed = False

    async def drain(self) -> None:
        """Write everything, what arrives meanwhile included, and make it durable."""
        try:
            while self.waiting and not self.gone.is_set():
                await self.write(durable=True)
            async with self._io:
                if self._open and self._synced < self._stored:
                    await self._storage.sync(self.id)
                    self._synced = self._stored
        except Exception:
            self._distrust()  # who knows what the disk has
            raise

    async def retire(self) -> None:
        """Drain and give the storage back, once; if that fails, everything stays as it is."""
        async with self._retirement:
            if self.gone.is_set():
                return
            if self.accepted:
                await self.drain()
            await self.release()

    async def release(self) -> None:
        """Give the storage back; nothing is written any more."""
        with anyio.CancelScope(shield=True):
            async with self._io:
                self.gone.set()
                self._open = False
                await self._storage.release(self.id)

    async def repair(self) -> SessionLog:
        """Take the storage, close what a crash left open, durably, and return the log."""
        async with self._io:
            stored = await self._take()
            if stored is None:
                raise SessionNotFoundError(self.id)
            closers = repair_closers(stored.events)
            await self._cut(stored, closers)
            events = log_of(stored.events, closers)
            self._stored, self._open = len(events), True
            return SessionLog(stored.header, events)

    async def claim(self) -> None:
        """Take the storage for a session that has yet to begin."""
        async with self._io:
            if await self._take() is not None:
                raise SessionConflictError(self.id, "a session is stored under its id")
            self._open = self.claimed = True

    async def append(self, header: SessionHeader | None, events: Sequence[SessionEvent]) -> None:
        """Take the storage and add events to the stored ones, or to none if there is a header."""
        async with self._io:
            stored = await self._take()
            if stored is not None:
                header = stored.header
                await self._cut(stored, ())
            if header is None:
                raise SessionNotFoundError(self.id)
            following = 0 if stored is None else len(stored.events)
            for seq, event in enumerate(events, following):
                if event.seq != seq:
                    raise InvalidEventError(event.type, f"seq {seq} is next", seq=event.seq)
            materialized = stored is not None
            await self._storage.append_batch(
                header, events, materialized=materialized, durable=True
            )

    async def delete(self) -> None:
        """Take the storage and remove the session from it."""
        async with self._io:
            await self._acquire()
            if await self._storage.read_stored_revision(self.id) is None:
                raise SessionNotFoundError(self.id)
            await self._storage.delete(self.id)

    async def _store(self, session: Session, *, durable: bool) -> None:
        if not self._open:
            await self._adopt(session)
        end = len(session.events)
        if end > self._stored:
            batch = session.events[self._stored : end]
            materialized = self._stored > 0
            await self._storage.append_batch(
                session.header, batch, materialized=materialized, durable=durable
            )
            self._stored = end
            if durable:
                self._synced = end

    def _distrust(self) -> None:
        """Take the storage anew and look at what it has before the next write."""
        self._open, self._stale = False, True
        self._stored = self._synced = 0

    async def _adopt(self, session: Session) -> None:
        """Find out how much of a live log is stored already, which must be its beginning."""
        stored = await self._take()
        if stored is not None:
            count = len(stored.events)
            if stored.header != session.header:
                raise SessionConflictError(self.id, "another session is stored under its id")
            if count > len(session.events) or not all(map(eq, stored.events, session.events)):
                raise SessionConflictError(self.id, "the stored log is not the beginning of it")
            await self._cut(stored, ())
            self._stored = count
        self._open = True

    async def _take(self) -> StoredLog | None:
        await self._acquire()
        return await self._storage.load_stored(self.id)

    async def _acquire(self) -> None:
        if self._before is not None:
            await self._before.retire()
            self._before = None
        if self._stale:
            await self._storage.release(self.id)
            self._stale = False
        await self._storage.acquire(self.id)

    async def _cut(self, stored: StoredLog, closers: Sequence[SessionEvent]) -> None:
        if closers or stored.torn_marker is not None:
            await self._storage.commit_repair(stored.header, stored.torn_marker, closers)


log: Final = logging.getLogger(__name__)
