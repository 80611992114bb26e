from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from terret_context import AnonymousLayers, Context, Effect, Service, scope_of

from ._errors import (
    ForkError,
    SessionExistsError,
    SessionNotFoundError,
    SessionNotLiveError,
    SessionStateError,
)
from ._events import SessionEvent
from ._headers import Meta, SessionHeader, SessionMeta
from ._last_turn import last_turn
from ._log import Seed
from ._notifications import CREATED, DISPOSED, EVENT, FLUSH
from ._persistence import SessionLog
from ._session import Listener, Session, Validator


class Sessions(Service, key="sessions"):
    """The live sessions, in the order of their creation."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self._entries: dict[str, _Entry] = {}
        self._validators = AnonymousLayers[Validator]("session validator")
        self._publisher = _ContextPublisher(ctx)

    def create(
        self, id: str | None = None, *, seed: Seed | None = None, meta: Meta | None = None
    ) -> Session:
        """Make a session live: prepare, enter and announce. The calling fiber owns it."""
        session = self.prepare(id, seed=seed, meta=meta)
        self.enter(session)
        self.announce(session)
        return session

    def prepare(
        self,
        id: str | None = None,
        *,
        seed: Seed | None = None,
        meta: Meta | None = None,
        header: SessionHeader | None = None,
    ) -> Session:
        """Make a session that nobody sees yet. Raises SessionExistsError if its id is live now."""
        session = Session(id, seed=seed, meta=meta, header=header)
        if session.id in self._entries:
            raise SessionExistsError(session.id)
        return session

    def enter(self, session: Session, *, scope: object | None = None) -> Effect:
        """Make a prepared session live; it is not announced yet.

        Its events are dispatched in `scope`, by default that of the caller. The effect belongs to
        the caller's fiber and detaches the session; inside one of its publications, or its
        announcement, that is put off to their end. Raises SessionExistsError if the id is live or
        the session was entered before.
        """
        within = scope_of(self.caller) if scope is None else scope

        def join() -> Callable[[], None]:
            self._join(session, within)
            return partial(self._detach, session)

        effect = self.caller.effect(join, label=f"session {session.id!r}")
        self._entries[session.id].effect = effect
        return effect

    def announce(self, session: Session) -> None:
        """Announce an entered session, once.

        If a listener refuses by an exception, the session is detached again and the exception
        raised. Raises SessionNotLiveError if a listener detached it.
        """
        entry = self._entry(session)
        if entry.announced:
            raise SessionStateError(session.id, "it was announced before")
        entry.announced = True
        try:
            with session._held():
                self.ctx.bail(CREATED, session)
        except BaseException:
            entry.effect.close()
            raise
        session._announced = True
        if not session.live:  # a listener detached it
            raise SessionNotLiveError(session.id)

    def refuse(self, session: Session) -> None:
        """Say that the creation of an announced session has failed after all.

        Nothing of it is stored any more. The caller detaches it.
        """
        self._entry(session)
        session._announced = False

    def get(self, id: str) -> Session | None:
        """The live session of this id."""
        entry = self._entries.get(id)
        return None if entry is None else entry.session

    def list(self) -> tuple[Session, ...]:
        """The live sessions, in the order in which they were entered."""
        return tuple(entry.session for entry in self._entries.values())

    def fork(
        self,
        source: Session | SessionLog | str,
        boundary: int | None = None,
        child_id: str | None = None,
    ) -> Session:
        """Create a session that begins with the log of `source` up to the seq `boundary`.

        The source is live, or a log that was loaded. Raises, in this order: SessionExistsError,
        SessionNotFoundError, SessionNotLiveError, ForkError with code INVALID_BOUNDARY or
        OPEN_TURN.
        """
        if child_id is not None and child_id in self._entries:
            raise SessionExistsError(child_id)
        seed, meta = self.fork_seed(source, boundary)
        return self.create(child_id, seed=seed, meta=meta)

    def fork_seed(
        self, source: Session | SessionLog | str, boundary: int | None = None
    ) -> tuple[Sequence[SessionEvent], SessionMeta]:
        """The seed and the metadata of a fork, for whoever creates the child; raises as `fork`."""
        parent = self._source(source)
        id, last = parent.header.id, len(parent.events) - 1
        end = last if boundary is None else boundary
        if type(end) is not int or not (0 <= end <= last or boundary is None):
            reason = f"boundary {boundary!r} is not between 0 and {last}"
            raise ForkError(id, boundary, reason, "INVALID_BOUNDARY")
        seed = parent.events[: end + 1]
        turn = last_turn(reversed(seed))
        if turn is not None and turn.end is None:
            raise ForkError(id, boundary, f"turn {turn.number} is open there", "OPEN_TURN")
        meta = SessionMeta(cwd=parent.header.cwd, parent_session=id, seed_length=len(seed))
        return seed, meta

    def validator(self, fn: Validator) -> Effect:
        """Let `fn(session, event)` see each event before its commit; raising is a veto.

        It is a plain function, changes nothing, and is asked for the sessions of the caller's
        scope, those that are live already included.
        """
        return self._validators.add(self.caller, fn, changed=self._equip_all)

    async def flush(self, session: Session) -> bool:
        """Wait until everything in the log is durable; tells whether anybody saw to it.

        All who keep sessions take part and run to their end. If some fail, the failure of the
        first is raised and the others are reported. Raises SessionNotLiveError.
        """
        self._entry(session)
        try:
            return await self.ctx.parallel(FLUSH, session) > 0
        except ExceptionGroup as failures:
            first, *others = failures.exceptions
            for error in others:
                self.ctx.report(error, label=f"flush of session {session.id!r}")
            raise first from None

    def _join(self, session: Session, scope: object | None) -> None:
        if session.id in self._entries:
            raise SessionExistsError(session.id)
        if session._joined:
            raise SessionStateError(session.id, "it was entered before")
        self._entries[session.id] = _Entry(session)
        session._joined = True
        session._scope = scope
        session._publisher = self._publisher
        self._equip(session)

    def _detach(self, session: Session) -> None:
        if session._held_back:
            session._deferred = partial(self._detach, session)
            return
        entry = self._entries.get(session.id)
        if entry is None or entry.session is not session:
            return
        del self._entries[session.id]
        session._publisher = None
        session._validators = ()
        if entry.announced:
            self.ctx.emit(DISPOSED, session)

    def _entry(self, session: Session) -> "_Entry":
        entry = self._entries.get(session.id)
        if entry is None or entry.session is not session:
            raise SessionNotLiveError(session.id)
        return entry

    def _source(self, source: Session | SessionLog | str) -> Session | SessionLog:
        if isinstance(source, SessionLog):
            return source
        session = self.get(source) if isinstance(source, str) else source
        if session is None:
            raise SessionNotFoundError(str(source))
        return self._entry(session).session

    def _equip(self, session: Session) -> None:
        session._validators = self._validators.collect(session.scope)

    def _equip_all(self) -> None:
        for entry in self._entries.values():
            self._equip(entry.session)


class _Entry:
    """A live session, and the effect that keeps it so."""

    __slots__ = ("announced", "effect", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.announced = False
        self.effect: Effect


class _ContextPublisher:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.event = EVENT
        self.listeners: Callable[[Any, object | None], tuple[Listener, ...]] = ctx.listeners

    def contain(self, session: Session, error: Exception) -> None:
        self._ctx.report(error, label=f"session/event of session {session.id!r}")
