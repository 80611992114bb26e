from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self, TypeVar

import anyio

from terret_context import Context

from ._errors import (
    SessionConflictError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    SessionStateError,
)
from ._events import SessionEvent
from ._headers import SessionHeader
from ._lanes import Lane
from ._notifications import CREATED, DISPOSED, EVENT, FLUSH
from ._persistence import SessionLog, SessionPersistence, SessionSnapshot, SessionStorage
from ._repair import repair_closers
from ._session import Session
from ._store import Sessions
from ._views import log_of

T = TypeVar("T")


class SessionCoordinator(SessionPersistence):
    """Keeps the live sessions of a context in a storage; every backend is one of these.

    Hold it in `async with` around the `yield` of the backend's plugin, and provide it there. An
    event waits for at most `window` seconds to be written, together with those that follow, and
    `prepare` at most `lease_wait` seconds for another process that has the session. Leaving the
    block writes what waits and closes the storage; failures are raised as one group.
    """

    def __init__(
        self,
        ctx: Context,
        storage: SessionStorage,
        *,
        window: float = 0.2,
        lease_wait: float = 0.0,
    ) -> None:
        self._ctx = ctx
        self._sessions = ctx[Sessions]
        self._storage = storage
        self._window = window
        self._lease_wait = lease_wait
        self._lanes: dict[str, Lane] = {}
        self._registered: dict[str, SessionHeader] = {}

    async def __aenter__(self) -> Self:
        self._ctx.on(CREATED, self._track)
        self._ctx.on(EVENT, self._note)
        self._ctx.on(FLUSH, self._flush)
        self._ctx.on(DISPOSED, self._forget)
        for session in self._sessions.list():
            self._track(session)
        return self

    async def __aexit__(self, *_: object) -> None:
        failures = []
        for lane in tuple(self._lanes.values()):
            try:
                await lane.retire()
            except Exception as error:
                failures.append(error)
        try:
            await self._storage.close()
        except Exception as error:
            failures.append(error)
        if failures:
            raise ExceptionGroup("closing the session storage", failures)

    async def create(self, header: SessionHeader) -> None:
        if header.id in self._registered or self._sessions.get(header.id) is not None:
            raise SessionExistsError(header.id)
        if await self._storage.read_stored_revision(header.id) is not None:
            raise SessionConflictError(header.id, "a session is stored under its id")
        self._registered[header.id] = header

    async def append(self, id: str, events: Sequence[SessionEvent]) -> None:
        async with self._reserved(id) as lane:
            await lane.append(self._registered.get(id), events)
        self._registered.pop(id, None)

    @asynccontextmanager
    async def prepare(self, id: str) -> AsyncIterator[Session]:
        async with self._reserved(id) as lane:
            log = await self._lease(lane.repair)
            session = self._sessions.prepare(header=log.header, seed=log.events)
            lane.session = session
            yield session

    @asynccontextmanager
    async def claim(self, id: str) -> AsyncIterator[None]:
        async with self._reserved(id) as lane:
            await self._lease(lane.claim)
            yield

    async def load(self, id: str) -> SessionLog:
        session = self._sessions.get(id)
        if session is None:
            async with self._reserved(id) as lane:
                return await lane.repair()
        await self._flush(session)
        if session.open_turn is not None:
            raise SessionStateError(id, f"turn {session.open_turn} is open")
        return SessionLog(session.header, session.events)

    async def inspect(self, id: str) -> SessionLog:
        header, events = await self._read(id)
        return SessionLog(header, log_of(events, repair_closers(events)))

    async def read_from(self, id: str, seq: int) -> Sequence[SessionEvent]:
        session = self._sessions.get(id)
        if session is not None:
            return session.events[seq:]
        events = await self._storage.load_stored_from(id, seq)
        if events is None:
            raise SessionNotFoundError(id)
        return events

    async def delete(self, id: str) -> None:
        if self._sessions.get(id) is not None:
            raise SessionStateError(id, "it is live")
        async with self._reserved(id) as lane:
            await lane.delete()
        self._registered.pop(id, None)

    async def list(self) -> tuple[SessionHeader, ...]:
        return tuple(snapshot.header for snapshot in await self._storage.list())

    async def list_snapshots(self) -> tuple[SessionSnapshot, ...]:
        return await self._storage.list()

    def locate(self, header: SessionHeader) -> str | None:
        return self._storage.locate(header)

    @property
    def supports_raw(self) -> bool:
        return self._storage.supports_raw

    async def read_raw(self, id: str) -> bytes:
        raw = await self._storage.read_raw(id)
        if raw is None:
            raise SessionNotFoundError(id)
        return raw

    async def _lease(self, take: Callable[[], Awaitable[T]]) -> T:
        """What taking the storage gives, when nobody else has the session any more."""
        deadline = anyio.current_time() + self._lease_wait
        holder = None
        while True:
            try:
                return await take()
            except SessionLockedError as error:
                if anyio.current_time() >= deadline:
                    raise
                if holder != error.holder:
                    holder, id = error.holder, error.session_id
                    self._ctx.logger.info("waiting for a session", session=id, holder=holder)
            await anyio.sleep(_LEASE_PAUSE)

    async def _read(self, id: str) -> tuple[SessionHeader, Sequence[SessionEvent]]:
        session = self._sessions.get(id)
        if session is not None:
            return session.header, session.events
        stored = await self._storage.load_stored(id)
        if stored is None:
            raise SessionNotFoundError(id)
        return stored.header, stored.events

    @asynccontextmanager
    async def _reserved(self, id: str) -> AsyncIterator[Lane]:
        """The lane of an id that is not live; it is released again unless it was published."""
        lane = await self._reserve(id)
        try:
            yield lane
        finally:
            if not lane.published:
                self._lanes.pop(id, None)
                await lane.release()

    async def _reserve(self, id: str) -> Lane:
        while (lane := self._lanes.get(id)) is not None:
            if lane.session is not None and lane.session.live:
                raise SessionExistsError(id)
            if lane.published:
                await self._retire(lane)
            else:
                await lane.gone.wait()
        if self._sessions.get(id) is not None:
            raise SessionExistsError(id)
        lane = self._lanes[id] = Lane(id, self._storage)
        return lane

    def _track(self, session: Session) -> None:
        lane = self._lanes.get(session.id)
        if lane is not None and lane.claimed and lane.session is None:
            lane.session = session
        if lane is None or lane.session is not session:
            lane = self._lanes[session.id] = Lane(session.id, self._storage, before=lane)
            lane.session = session
        lane.published = True
        if lane.waiting and not lane.window_open:
            self._open_window(lane)

    def _note(self, session: Session, _: SessionEvent) -> None:
        lane = self._lanes.get(session.header.id)
        if lane is not None and not lane.window_open:
            self._open_window(lane)

    def _open_window(self, lane: Lane) -> None:
        lane.window_open = True
        self._ctx.spawn(self._write_behind, lane, name=f"write {lane.id}")

    async def _write_behind(self, lane: Lane) -> None:
        await anyio.sleep(self._window)
        lane.window_open = False  # what comes from here on has a window of its own
        try:
            if lane.accepted:
                await lane.write()
        except Exception as error:
            if not lane.failed:
                lane.failed = True
                self._ctx.report(error, label=f"storing session {lane.id!r}")

    async def _flush(self, session: Session) -> None:
        lane = self._lanes.get(session.id)
        if lane is not None and lane.session is session:
            await lane.drain()

    def _forget(self, session: Session) -> None:
        lane = self._lanes.get(session.id)
        if lane is not None and lane.session is session:
            self._ctx.spawn(self._try_retire, lane, name=f"retire {lane.id}")

    async def _try_retire(self, lane: Lane) -> None:
        try:
            await self._retire(lane)
        except Exception as error:
            self._ctx.report(error, label=f"storing session {lane.id!r}")

    async def _retire(self, lane: Lane) -> None:
        await lane.retire()
        if self._lanes.get(lane.id) is lane:
            del self._lanes[lane.id]


_LEASE_PAUSE: Final = 0.05
