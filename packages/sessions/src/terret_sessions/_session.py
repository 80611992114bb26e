from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import time_ns
from typing import Any, Protocol, final

from terret_llm import Message

from ._decoding import event_from_wire
from ._errors import (
    InvalidEventError,
    LosslessJsonError,
    SessionBusyError,
    UnknownEventTypeError,
)
from ._event_types import TYPES, event_type, plain_object
from ._events import SessionEvent, SurfaceOp
from ._folds import FOLDS, LogFolds
from ._headers import (
    EpochHeader,
    SessionHeader,
    SessionMeta,
    new_header,
    session_meta_from_wire,
)
from ._json import MAX_DEPTH, copy_json
from ._packing import Slot
from ._records import EndSeed, RequestContext
from ._sources import Item, Sources
from ._surface import Surface, derived_message
from ._views import EventsView, ListView

Seed = Iterable[SessionEvent | Mapping[str, object]]
Meta = SessionMeta | Mapping[str, object]
Validator = Callable[["Session", SessionEvent], object]
Listener = Callable[["Session", SessionEvent], object]


class Publisher(Protocol):
    """Where a live session announces its events; a session without one is bare."""

    def listeners(self, session: "Session") -> tuple[Listener, ...]:
        """Those who hear of the session's events now."""
        ...

    def contain(self, session: "Session", error: Exception) -> None:
        """Take the failure of a listener."""
        ...


@final
class Session:
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
        self.header = _new_header(id, meta) if header is None else header
        self.surface = Surface()
        self._slots: list[Slot] = []
        self._folds = LogFolds(self._slots)
        self._messages: list[Message] = []
        self._derived = (0, 0)
        self._validators: tuple[Validator, ...] = ()
        self._publisher: Publisher | None = None
        self._scope: object | None = None
        self._joined = False
        self._announced = False
        self._publishing = False
        self._holds = 0
        self._deferred: Callable[[], object] | None = None
        self.first_live_seq = 0 if seed is None else self._plant(seed)

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
    def open_turn(self) -> int | None:
        """The number of the turn that is open."""
        return self._folds.open_turn

    @property
    def open_step(self) -> int | None:
        """The number of the step that is open."""
        return self._folds.open_step

    @property
    def last_turn(self) -> int:
        """The number of the turn that began last; 0 before the first."""
        return self._folds.last_turn

    @property
    def announced(self) -> bool:
        """Whether the creation was announced and nobody refused it."""
        return self._announced

    @property
    def events(self) -> Sequence[SessionEvent]:
        """The log up to now, as a read-only view that does not grow; its index is the seq."""
        return EventsView(self._slots, range(len(self._slots)))

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
        seq = len(self._slots)
        declared = TYPES.get(type)
        if declared is not None:
            ignorable = declared.ignorable
        if declared is None or data.__class__ is not declared.payload:
            data = _read_plain(type, seq, data, ignorable)
        if sources is not None and not isinstance(sources, Sources):
            sources = Sources(sources)
        event = SessionEvent(
            type, seq, time_ns() // 1_000_000, data, surface_op, sources, ignorable
        )
        seen = declared is None or declared.surface or surface_op is not None or sources is not None
        place = self.surface.plan(event) if seen else None
        if self._publisher is None:
            self._commit(event, place)
        else:
            self._append_live(self._publisher, event, place)
        return event

    def derive_messages(self) -> Sequence[Message]:
        """What the model sees now, as a read-only view that does not grow: O(new events)."""
        generation, done = self._derived
        nodes = self.surface.nodes
        if generation != self.surface.replace_generation:
            self._messages, done = [], 0
        for node in nodes[done:]:
            message = derived_message(node)
            if message is not None:
                self._messages.append(message)
        self._derived = (self.surface.replace_generation, len(nodes))
        return ListView(self._messages, range(len(self._messages)))

    def request_header(self) -> EpochHeader | None:
        """The header in force; None before the first request."""
        return self._folds.request_header

    def request_context(self) -> RequestContext | None:
        """The route in force; None before the first request."""
        return self._folds.request_context

    def _plant(self, seed: Seed) -> int:
        slots = seed.slots() if isinstance(seed, EventsView) else None
        if slots is not None:
            self._take_over(slots)
        else:
            self._plant_each(seed)
        length = len(self._slots)
        if length == 0 or not isinstance(self.events[-1].view, EndSeed):
            self.append("session/end-seed", EndSeed())
        return length

    def _plant_each(self, seed: Seed) -> None:
        for item in seed:
            event = item if isinstance(item, SessionEvent) else event_from_wire(item)
            expected = len(self._slots)
            if event.seq != expected:
                raise InvalidEventError(event.type, f"seq {expected} is next", seq=event.seq)
            self._commit(event, self.surface.plan(event))

    def _take_over(self, slots: list[Slot]) -> None:
        """Begin with a log that is packed already; packed chunks change nothing but its length."""
        self._slots += slots
        self._folds.leave_packed()
        for slot in slots:
            if slot.__class__ is SessionEvent:
                self.surface.commit(slot, self.surface.plan(slot))
                self._folds.take(slot.view)

    def _commit(self, event: SessionEvent, place: slice | None) -> None:
        self._slots.append(event)
        if place is not None:
            self.surface.commit(event, place)
        fold = FOLDS.get(event.view.__class__)
        if fold is not None:
            fold(self._folds, event.view)

    def _append_live(self, publisher: Publisher, event: SessionEvent, place: slice | None) -> None:
        self._publishing = True
        try:
            for check in self._validators:
                check(self, event)
            self._commit(event, place)
            for listener in publisher.listeners(self):
                try:
                    listener(self, event)
                except Exception as error:
                    publisher.contain(self, error)
        finally:
            self._publishing = False
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


def _new_header(session_id: str | None, meta: Meta | None) -> SessionHeader:
    if meta is None:
        meta = SessionMeta()
    elif not isinstance(meta, SessionMeta):
        try:
            meta = session_meta_from_wire(copy_json(meta))
        except LosslessJsonError as error:
            place = "session metadata"
            raise LosslessJsonError(error.pointer, error.reason, event_type=place) from None
    return new_header(session_id, meta)


def _read_plain(type: str, seq: int, data: object, ignorable: bool) -> Any:
    declared = event_type(type)
    if declared is None and not ignorable:
        raise UnknownEventTypeError(type, seq=seq)
    try:
        plain = copy_json(data, max_depth=MAX_DEPTH)
        return plain_object(plain) if declared is None else declared.decode(plain)
    except LosslessJsonError as error:
        raise LosslessJsonError(error.pointer, error.reason, event_type=type) from None
    except ValueError as error:
        raise InvalidEventError(type, str(error), seq=seq) from None
