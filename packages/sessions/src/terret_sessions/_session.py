from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import time_ns
from typing import Any, Protocol, final

from ._chunk_runs import CHUNK
from ._errors import SessionBusyError
from ._events import SessionEvent, SurfaceOp
from ._headers import Meta, SessionHeader, header_of
from ._log import Log, Seed
from ._payloads import AssistantChunk
from ._records import EndSeed
from ._sources import Item, Sources

Validator = Callable[["Session", SessionEvent], object]
Listener = Callable[["Session", SessionEvent], object]


class Publisher(Protocol):
    """Where a live session announces its events; a session without one is bare."""

    @property
    def event(self) -> Any:
        """What is announced."""
        ...

    @property
    def listeners(self) -> Callable[[Any, object | None], tuple[Listener, ...]]:
        """Gives those who hear of an event in a scope now."""
        ...

    def contain(self, session: "Session", error: Exception) -> None:
        """Take the failure of a listener."""
        ...


@final
class Session(Log):
    """An append-only log of events, and what follows from it.

    A session of a store is made by `ctx[Sessions]`; a bare one works alone and has neither
    validators nor listeners. `seed` is a complete list of events, given as such (their payloads
    are trusted and shared) or as plain JSON objects (walked and copied). `meta` describes a new
    session, `header` restores a stored one. Raises InvalidEventError, SurfaceError,
    LosslessJsonError or ValueError if one of them is not valid.
    """

    def __init__(
        self,
        id: str | None = None,
        *,
        seed: Seed | None = None,
        meta: Meta | None = None,
        header: SessionHeader | None = None,
    ) -> None:
        self.header = header_of(id, meta) if header is None else header
        super().__init__()
        self._validators: tuple[Validator, ...] = ()
        self._publisher: Publisher | None = None
        self._scope: object | None = None
        self._joined = False
        self._announced = False
        self._publishing = False
        self._holds = 0
        self._deferred: Callable[[], object] | None = None
        self.first_live_seq = 0
        if seed is not None:
            self._plant(seed)
            self.first_live_seq = len(self._slots)
            if not self._slots or not isinstance(self.events[-1].view, EndSeed):
                self.append("session/end-seed", EndSeed())

    @property
    def id(self) -> str:
        """The identity of the session, of its stored log and of its agent."""
        return self.header.id

    @property
    def live(self) -> bool:
        """Whether the session is entered in a store."""
        return self._publisher is not None

    @property
    def scope(self) -> object | None:
        """The scope key the session was entered with; the subject of its events."""
        return self._scope

    @property
    def announced(self) -> bool:
        """Whether the creation was announced and nobody refused it."""
        return self._announced

    def append(
        self,
        type: str,
        data: object,
        *,
        surface_op: SurfaceOp | None = None,
        sources: Sources | Iterable[Item] | None = None,
        ignorable: bool = False,
    ) -> SessionEvent:
        """Append one event, announce it and return it.

        `data` is a payload of the declared class, which is trusted, or a plain JSON object, which
        is walked and copied. `ignorable` lets readers skip a type that nobody declared. Whatever
        is raised before the commit changes nothing: LosslessJsonError, InvalidEventError,
        SurfaceError, the veto of a validator, SessionBusyError from inside a publication. Failures
        of listeners are contained.
        """
        if self._publishing:
            raise SessionBusyError(self.id, type)
        place: slice | None = None
        log_only = surface_op is None and sources is None
        if log_only and data.__class__ is AssistantChunk and type == CHUNK:
            event = SessionEvent(CHUNK, len(self._slots), time_ns() // 1_000_000, data)
        else:
            event = self._made(type, data, surface_op, sources, ignorable)
            place = self.surface.plan(event)
        if self._publisher is None:
            self._commit(event, place)
        else:
            self._append_live(self._publisher, event, place)
        return event

    def _append_live(self, publisher: Publisher, event: SessionEvent, place: slice | None) -> None:
        self._publishing = True
        try:
            for check in self._validators:
                check(self, event)
            self._commit(event, place)
            for listener in publisher.listeners(publisher.event, self._scope):
                try:
                    listener(self, event)
                except Exception as error:
                    publisher.contain(self, error)
        finally:
            self._publishing = False
            if self._deferred is not None:
                self._let_go()

    @property
    def _held_back(self) -> bool:
        """Whether a detach has to wait."""
        return self._publishing or self._holds > 0

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Whatever wants to detach the session in the block waits for its end."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._let_go()

    def _let_go(self) -> None:
        if self._deferred is not None and not self._held_back:
            deferred, self._deferred = self._deferred, None
            deferred()
