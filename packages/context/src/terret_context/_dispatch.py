"""Listener tables, and the five ways to dispatch an event to them."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import anyio

from ._effects import Effect, Owner
from ._errors import NextCalledTwiceError, SubjectError
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


class Table:
    """The listeners of one event, in order, with the tuples that dispatches iterate over."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._front: dict[Listener, None] = {}
        self._back: dict[Listener, None] = {}
        self._scoped = 0
        self._drop = drop
        self.version = 0
        self._all: tuple[Listener, ...] | None = None
        self._unscoped: tuple[Listener, ...] | None = None
        self._functions: dict[int, tuple[tuple[Listener, ...], tuple[Callable[..., Any], ...]]] = {}

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    def add(self, listener: Listener, *, prepend: bool) -> None:
        (self._front if prepend else self._back)[listener] = None
        listener.table = self
        self._scoped += listener.scope is not None
        self._changed()

    def remove(self, listener: Listener) -> None:
        self._front.pop(listener, None)
        self._back.pop(listener, None)
        self._scoped -= listener.scope is not None
        self._changed()
        if not (self._front or self._back):
            self._drop()

    def select(self, name: str, subject: object | None) -> tuple[Listener, ...]:
        """Returns the listeners that a dispatch with this subject reaches, in order."""
        if self._all is None:
            self._all = (*reversed(self._front), *self._back)
        if not self._scoped:
            return self._all
        record = None if subject is None else scope_record(subject)
        if record is None:
            if self._unscoped is None:
                self._unscoped = tuple(one for one in self._all if one.scope is None)
            return self._unscoped
        version, chosen = record.selected.get(name, (-1, ()))
        if version != self.version:
            chain = {id(key) for key in scope_chain(subject)}
            chosen = tuple(one for one in self._all if one.scope is None or id(one.scope) in chain)
            record.selected[name] = (self.version, chosen)
        return chosen  # type: ignore[return-value]  # the record keeps tuples of any event

    def functions(self, name: str, subject: object | None) -> tuple[Callable[..., Any], ...]:
        """Returns the functions of `select`; the same tuple until a listener comes or goes."""
        chosen = self.select(name, subject)
        known = self._functions.get(id(chosen))
        if known is None or known[0] is not chosen:
            active = (one for one in chosen if one.active)
            functions = tuple(one.call_taken if one.once else one.fn for one in active)
            self._functions[id(chosen)] = known = (chosen, functions)
        return known[1]

    def forget_functions(self) -> None:
        self._functions.clear()

    def _changed(self) -> None:
        self.version += 1
        self._all = self._unscoped = None
        self._functions.clear()


def silence(effects: Iterable[Effect]) -> None:
    """Makes listeners deaf whose fiber begins to unload."""
    for effect in effects:
        if isinstance(effect, Listener):
            effect.active = False
            if effect.table is not None:
                effect.table.forget_functions()
        elif effect.children:
            silence(effect.children)


def subject_of(event: Event, payload: tuple[Any, ...], subject: object) -> object | None:
    """Returns the scope key of a dispatch. Raises `SubjectError` if it is given twice."""
    if event.subject is None:
        return None if subject is UNSET else subject
    if subject is not UNSET:
        raise SubjectError(event.name)
    return event.subject(*payload)


def emit(listeners: Iterable[Listener], payload: tuple[Any, ...]) -> None:
    """Calls every listener; each failure is contained, async ones become tasks of their fiber."""
    for listener in listeners:
        if not listener.active or (listener.once and not listener.take()):
            continue
        try:
            if listener.is_async:
                _spawn(listener, partial(listener.fn, *payload))
            else:
                result = listener.fn(*payload)
                if result is not None and inspect.iscoroutine(result):
                    _spawn(listener, partial(_finish, result))
        except Exception as error:
            listener.owner.kernel.report(listener.owner, error, listener.label)


async def parallel(listeners: Iterable[Listener], payload: tuple[Any, ...], name: str) -> int:
    """Runs all listeners concurrently, each to its end; raises their failures as one group."""
    taken = [one for one in listeners if one.take()]
    failures: list[Exception | None] = [None] * len(taken)

    async def run(index: int, listener: Listener) -> None:
        try:
            await _finish(listener.fn(*payload))
        except Exception as error:
            failures[index] = error

    await anyio.lowlevel.checkpoint()
    async with anyio.create_task_group() as group:
        for index, listener in enumerate(taken):
            group.start_soon(run, index, listener)
    raised = [error for error in failures if error is not None]
    if raised:
        raise ExceptionGroup(f'listeners of "{name}"', raised)
    return len(taken)


def bail(listeners: Iterable[Listener], payload: tuple[Any, ...]) -> Any:
    """Calls plain listeners until one returns something or raises."""
    for listener in listeners:
        if listener.take():
            result = listener.fn(*payload)
            if result is not None:
                return result
    return None


async def serial(listeners: Iterable[Listener], payload: tuple[Any, ...]) -> Any:
    """Awaits listeners one at a time until one returns something or raises."""
    await anyio.lowlevel.checkpoint()
    for listener in listeners:
        if listener.take():
            result = await _finish(listener.fn(*payload))
            if result is not None:
                return result
    return None


async def waterfall(
    listeners: tuple[Listener, ...],
    payload: tuple[Any, ...],
    inner: Callable[[], Any],
    event: Event,
) -> Any:
    """Runs the listeners as middleware around `inner`; the first one is outermost."""
    await anyio.lowlevel.checkpoint()
    return await _wrap(listeners, 0, payload, inner, event)


async def _wrap(
    listeners: tuple[Listener, ...],
    index: int,
    payload: tuple[Any, ...],
    inner: Callable[[], Any],
    event: Event,
) -> Any:
    while index < len(listeners) and not listeners[index].take():
        index += 1
    if index == len(listeners):
        return await _finish(inner())
    listener = listeners[index]
    calls = running = 0

    async def call_next() -> Any:
        nonlocal calls, running
        if running or (calls and not event.repeat):
            who = getattr(listener.fn, "__qualname__", repr(listener.fn))
            raise NextCalledTwiceError(event.name, who, overlapping=running > 0)
        calls += 1
        running += 1
        try:
            return await _wrap(listeners, index + 1, payload, inner, event)
        finally:
            running -= 1

    return await _finish(listener.fn(*payload, call_next))


async def _finish(result: Any) -> Any:
    return await result if hasattr(result, "__await__") else result


def _spawn(listener: Listener, fn: Callable[[], Awaitable[object]]) -> None:
    TaskHandle(listener.owner, f"task of {listener.label}", fn, contained=True).start()
