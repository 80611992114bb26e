"""Listeners, the tables of them, and what dispatches select from these."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from types import CoroutineType
from typing import Any, Final, TypeAlias

from ._effects import Effect, Owner
from ._errors import SubjectError
from ._events import Event, is_async
from ._scopes import scope_chain, scope_record
from ._tasks import TaskHandle

UNSET: Any = object()


class Listener(Effect):
    """One registration on an event."""

    __slots__ = ("active", "fn", "is_async", "once", "scope", "table")

    def __init__(
        self,
        owner: Owner,
        event: Event,
        fn: Callable[..., Any],
        scope: object | None,
        *,
        once: bool,
    ) -> None:
        self.fn = fn
        self.scope = scope
        self.once = once
        self.is_async = is_async(fn)
        self.active = True
        self.table: Table | None = None
        super().__init__(owner, f'on "{event.name}"')

    def take(self) -> bool:
        """Whether the listener is to be called now; one of `once` is gone after the first yes."""
        if not self.active:
            return False
        if self.once:
            self.undo_now([])
        return True

    def call_taken(self, *payload: Any) -> Any:
        return self.fn(*payload) if self.take() else None

    def _release(self, errors: list[Exception]) -> None:
        self.active = False
        if self.table is not None:
            self.table.remove(self)


Failed: TypeAlias = Callable[[Listener, Exception], None]
"""What becomes of the failure of a listener under `emit`."""


class Selection:
    """The listeners that dispatches of one event with one subject reach, in order."""

    __slots__ = ("_functions", "listeners", "version")

    def __init__(self, listeners: Iterable[Listener], version: int) -> None:
        self.listeners = tuple(listeners)
        self.version = version
        self._functions: tuple[Callable[..., Any], ...] | None = None

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What the owner of a direct event calls."""
        if self._functions is None:
            active = (one for one in self.listeners if one.active)
            self._functions = tuple(one.call_taken if one.once else one.fn for one in active)
        return self._functions


_NOBODY: Final = Selection((), 0)
_versions: Final = count(1)  # over all tables, since a scope remembers selections of any of them


class Table:
    """The listeners of one event, and what dispatches select from them until one comes or goes."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._front: dict[Listener, None] = {}
        self._back: dict[Listener, None] = {}
        self._scoped = 0
        self._drop = drop
        self.changed()

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    def __iter__(self) -> Iterator[Listener]:
        yield from reversed(self._front)
        yield from self._back

    def add(self, listener: Listener, *, prepend: bool) -> None:
        (self._front if prepend else self._back)[listener] = None
        listener.table = self
        self._scoped += listener.scope is not None
        self.changed()

    def remove(self, listener: Listener) -> None:
        self._front.pop(listener, None)
        self._back.pop(listener, None)
        self._scoped -= listener.scope is not None
        self.changed()
        if not (self._front or self._back):
            self._drop()

    def changed(self) -> None:
        """Makes later dispatches select anew."""
        self._version = next(_versions)
        self._all: Selection | None = None
        self._unscoped: Selection | None = None

    def select(self, name: str, subject: object | None = None) -> Selection:
        """Returns the listeners that a dispatch with this subject reaches."""
        if not self._scoped:
            if self._all is None:
                self._all = Selection(self, self._version)
            return self._all
        record = None if subject is None else scope_record(subject)
        if record is None:
            if self._unscoped is None:
                chosen = (one for one in self if one.scope is None)
                self._unscoped = Selection(chosen, self._version)
            return self._unscoped
        known: Selection | None = record.selected.get(name)
        if known is None or known.version != self._version:
            chain = {id(key) for key in scope_chain(subject)}
            chosen = (one for one in self if one.scope is None or id(one.scope) in chain)
            record.selected[name] = known = Selection(chosen, self._version)
        return known


def select(tables: Mapping[str, Table], name: str, subject: object | None = None) -> Selection:
    """Returns the listeners of an event that may have none."""
    table = tables.get(name)
    return _NOBODY if table is None else table.select(name, subject)


def silence(effects: Iterable[Effect]) -> None:
    """Makes listeners deaf whose fiber begins to unload."""
    for effect in effects:
        if isinstance(effect, Listener):
            effect.active = False
            if effect.table is not None:
                effect.table.changed()
        elif effect.children:
            silence(effect.children)


def subject_of(event: Event, payload: tuple[Any, ...], subject: object) -> object | None:
    """Returns the scope key of a dispatch. Raises `SubjectError` if it is given twice."""
    if event.subject is None:
        return None if subject is UNSET else subject
    if subject is not UNSET:
        raise SubjectError(event.name)
    return event.subject(*payload)


def emit(
    listeners: Iterable[Listener], payload: tuple[Any, ...], failed: Failed | None = None
) -> None:
    """Calls every listener; each failure is contained, async ones become tasks of their fiber."""
    for listener in listeners:
        if not listener.active or (listener.once and not listener.take()):
            continue
        try:
            if listener.is_async:
                _spawn(listener, partial(listener.fn, *payload), failed)
            else:
                result = listener.fn(*payload)
                if result is not None and isinstance(result, CoroutineType):
                    _spawn(listener, partial(finish, result), failed)
        except Exception as error:
            (failed or _report)(listener, error)


async def finish(result: Any) -> Any:
    """Awaits what a listener returned, if it has to be."""
    return await result if hasattr(result, "__await__") else result


def _spawn(listener: Listener, fn: Callable[[], Awaitable[object]], failed: Failed | None) -> None:
    contained = partial(failed or _report, listener)
    TaskHandle(listener.owner, f"task of {listener.label}", fn, contained)


def _report(listener: Listener, error: Exception) -> None:
    listener.owner.kernel.report(listener.owner, error, listener.label)
