"""Event descriptors, one class a mode, and the process-wide catalogue of them."""

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar, Generic, Literal, TypeAlias, TypeVar, TypeVarTuple, get_args

from ._errors import EventConflictError, EventModeError, UnknownEventError

P = TypeVar("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

Mode: TypeAlias = Literal["emit", "parallel", "bail", "serial", "waterfall"]
Next: TypeAlias = Callable[[], Awaitable[R]]
"""The type of `call_next` in a waterfall listener."""

_catalog: dict[str, "Event"] = {}


class Event:
    """What all descriptors share. Use the class of the mode, never this one.

    Attributes:
        name: `area/what`, as in logs and in `ctx.on("area/what", ...)`.
        subject: takes the scope key out of the payload, or `None`.
        doc: one sentence for the catalogue.
        owner: the top-level package that declared the event.
    """

    mode: ClassVar[Mode]
    _has_result: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        *,
        subject: Callable[..., object] | None = None,
        doc: str = "",
        direct: bool = False,
        repeat: bool = False,
    ) -> None:
        self.name = name
        self.subject = subject
        self.doc = doc
        self.direct = direct
        self.repeat = repeat
        self.owner = _declaring_package()
        _declare(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def types(self) -> tuple[object, ...]:
        """The types of the subscription, payload first; empty if it was left out."""
        return get_args(getattr(self, "__orig_class__", None))

    @property
    def payload(self) -> tuple[object, ...]:
        """The types of what listeners get."""
        return self.types[:-1] if self._has_result else self.types

    @property
    def result(self) -> object | None:
        """The type of what listeners return, or `None`."""
        return self.types[-1] if self._has_result and self.types else None

    def check_listener(self, fn: Callable[..., object]) -> None:
        """Raises `EventModeError` if `fn` cannot be a listener of this event."""
        wanted = self._arity()
        if not _accepts(fn, wanted):
            takes = "(payload, call_next)" if self.mode == "waterfall" else f"{wanted} parameter(s)"
            raise EventModeError(self.name, self.mode, f"a listener takes {takes}, {fn!r} does not")
        if (self.mode == "bail" or self.direct) and is_async(fn):
            raise EventModeError(
                self.name, "direct" if self.direct else self.mode, "listeners are plain functions"
            )

    def _arity(self) -> int:
        return 1


class Emit(Event, Generic[*Ts]):
    """A notification: every listener runs, results are ignored, failures are contained."""

    mode = "emit"
    _has_result = False

    def _arity(self) -> int:
        return len(self.types) if hasattr(self, "__orig_class__") else 1


class Parallel(Event, Generic[P]):
    """All listeners run concurrently, each to its end; failures are raised as one group."""

    mode = "parallel"
    _has_result = False


class Bail(Event, Generic[P, R]):
    """Plain listeners, one after the other; the first result or exception ends it."""

    mode = "bail"


class Serial(Event, Generic[P, R]):
    """Listeners are awaited one at a time; the first result or exception ends it."""

    mode = "serial"


class Waterfall(Event, Generic[P, R]):
    """Middleware: `listener(payload, call_next)` wraps those behind it and `inner`."""

    mode = "waterfall"

    def _arity(self) -> int:
        return 2


def event_catalog() -> tuple[Event, ...]:
    """Returns every descriptor made so far, by name."""
    return tuple(_catalog[name] for name in sorted(_catalog))


def find_event(name: str) -> Event | None:
    """Returns the descriptor of that name, or `None`."""
    return _catalog.get(name)


def require_event(event: Event | str, mode: Iterable[Mode], call: str) -> Event:
    """Returns the descriptor of an event given as such or as text, checked for its mode."""
    if isinstance(event, str):
        found = _catalog.get(event)
        if found is None:
            raise UnknownEventError(event, _catalog)
        event = found
    if event.mode not in mode:
        raise EventModeError(event.name, event.mode, f"use `ctx.{event.mode}`, not `{call}`")
    return event


def is_async(fn: Callable[..., object]) -> bool:
    """Tells whether calling `fn` gives a coroutine."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004 - an instance with an async `__call__`
    )


def _declare(event: Event) -> None:
    known = _catalog.get(event.name)
    if known is not None and (known.mode, known.owner) != (event.mode, event.owner):
        raise EventConflictError(
            event.name,
            f"{known.mode} by {known.owner}",
            f"{event.mode} by {event.owner}",
        )
    _catalog[event.name] = event


def _declaring_package() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"] in (__name__, "typing"):
        frame = frame.f_back
    return str(frame.f_globals["__name__"]).partition(".")[0]


def _accepts(fn: Callable[..., object], count: int) -> bool:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some builtins have none
        return callable(fn)
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
