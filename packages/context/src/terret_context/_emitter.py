"""Listening through a context, and the five ways to dispatch an event."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, TypeVarTuple, overload

import anyio
from anyio.lowlevel import checkpoint

from ._dispatch import UNSET, Listener, Table, emit, finish, select, subject_of
from ._effects import Effect
from ._errors import EventModeError, NextCalledTwiceError
from ._events import Bail, Emit, Event, Mode, Next, Parallel, Serial, Waterfall, require_event
from ._fiber import Fiber

P = TypeVar("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")
_ALL: Final[tuple[Mode, ...]] = ("emit", "parallel", "bail", "serial", "waterfall")


class Emitter:
    """The part of `Context` that deals with events."""

    __slots__ = ()

    fiber: Fiber
    _scope: object | None

    @overload
    def on(
        self,
        event: Emit[*Ts],
        fn: Callable[[*Ts], object],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: Parallel[P],
        fn: Callable[[P], object],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: Bail[P, R],
        fn: Callable[[P], R | None],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: Serial[P, R],
        fn: Callable[[P], R | Awaitable[R | None] | None],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect: ...
    @overload
    def on(
        self,
        event: Waterfall[P, R],
        fn: Callable[[P, Next[R]], R | Awaitable[R]],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect: ...
    @overload
    def on(
        self, event: str, fn: Callable[..., object], *, prepend: bool = ..., unscoped: bool = ...
    ) -> Effect: ...
    def on(
        self,
        event: Event | str,
        fn: Callable[..., Any],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect:
        """Registers a listener, owned by this context; its undo takes it back.

        Listeners run in order of registration, `prepend=True` goes to the front. Through a scoped
        context it hears only its scope and those below it, unless `unscoped=True`. Raises
        `EventModeError` if `fn` does not fit the mode, `UnknownEventError` for an unknown name.
        """
        return self._listen(event, fn, once=False, prepend=prepend, unscoped=unscoped)

    def once(
        self,
        event: Event | str,
        fn: Callable[..., Any],
        *,
        prepend: bool = False,
        unscoped: bool = False,
    ) -> Effect:
        """Like `on`, for the first dispatch only."""
        return self._listen(event, fn, once=True, prepend=prepend, unscoped=unscoped)

    @overload
    def emit(self, event: Emit[*Ts], *payload: *Ts, subject: object = UNSET) -> None: ...
    @overload
    def emit(self, event: str, *payload: object, subject: object = UNSET) -> None: ...
    def emit(  # type: ignore[misc]  # mypy cannot match `*Ts` with the implementation
        self, event: Any, *payload: Any, subject: object = UNSET
    ) -> None:
        """Notifies every listener; failures are contained, async ones are tasks of their fiber."""
        if event.__class__ is not Emit:
            event = require_event(event, ("emit",), "ctx.emit")
        if event.direct:
            raise EventModeError(event.name, "direct", "its owner calls `ctx.listeners(event)`")
        table = self.fiber.kernel.tables.get(event.name)
        if table is not None:
            chosen_for = subject_of(event, payload, subject)
            emit(table.select(event.name, chosen_for).listeners, payload)

    async def parallel(
        self, event: Parallel[P] | str, payload: P, *, subject: object = UNSET
    ) -> int:
        """Runs all listeners at once, each to its end, and returns how many ran.

        Raises their failures as one `ExceptionGroup`, in listener order.
        """
        found, chosen = self._select(event, "parallel", payload, subject)
        failures: dict[int, Exception] = {}
        ran = 0

        async def run(index: int, listener: Listener) -> None:
            nonlocal ran
            if not listener.take():
                return
            ran += 1
            try:
                await finish(listener.fn(payload))
            except Exception as error:
                failures[index] = error

        await checkpoint()
        async with anyio.create_task_group() as group:
            for index, listener in enumerate(chosen):
                group.start_soon(run, index, listener)
        if failures:
            in_order = [failures[index] for index in sorted(failures)]
            raise ExceptionGroup(f'listeners of "{found.name}"', in_order)
        return ran

    def bail(self, event: Bail[P, R] | str, payload: P, *, subject: object = UNSET) -> R | None:
        """Calls listeners until one returns something but `None`, or raises."""
        for listener in self._select(event, "bail", payload, subject)[1]:
            if listener.take():
                result: R | None = listener.fn(payload)
                if result is not None:
                    return result
        return None

    async def serial(
        self, event: Serial[P, R] | str, payload: P, *, subject: object = UNSET
    ) -> R | None:
        """Awaits listeners one at a time until one returns something but `None`, or raises."""
        _, chosen = self._select(event, "serial", payload, subject)
        await checkpoint()
        for listener in chosen:
            if listener.take():
                result: R | None = await finish(listener.fn(payload))
                if result is not None:
                    return result
        return None

    async def waterfall(
        self,
        event: Waterfall[P, R] | str,
        payload: P,
        inner: Callable[[], R | Awaitable[R]],
        *,
        subject: object = UNSET,
    ) -> R:
        """Runs the listeners as middleware around `inner()` and returns the result.

        Exceptions pass through the wrappers. A listener that does not await `call_next()` cuts off
        those behind it; a second call raises `NextCalledTwiceError` unless the event is `repeat`.
        """
        found, chosen = self._select(event, "waterfall", payload, subject)
        await checkpoint()
        result: R = await _wrapped(chosen, payload, inner, found)
        return result

    def listeners(
        self, event: Event | str, subject: object | None = None
    ) -> tuple[Callable[..., Any], ...]:
        """Returns the functions that a dispatch would call now, for the owner of a direct event.

        It is the same tuple until a listener comes or goes.
        """
        if isinstance(event, str):
            event = require_event(event, _ALL, "ctx.listeners")
        table = self.fiber.kernel.tables.get(event.name)
        return () if table is None else table.select(event.name, subject).functions

    def _select(
        self, event: Any, mode: Any, payload: object, subject: object
    ) -> tuple[Event, tuple[Listener, ...]]:
        event = require_event(event, (mode,), f"ctx.{mode}")
        chosen_for = subject_of(event, (payload,), subject)
        return event, select(self.fiber.kernel.tables, event.name, chosen_for).listeners

    def _listen(
        self,
        event: Event | str,
        fn: Callable[..., Any],
        *,
        once: bool,
        prepend: bool,
        unscoped: bool,
    ) -> Effect:
        event = require_event(event, _ALL, "ctx.on")
        event.check_listener(fn)
        scope = None if unscoped else self._scope
        listener = Listener(self.fiber, event, fn, scope, once=once)
        tables = self.fiber.kernel.tables
        table = tables.get(event.name)
        if table is None:
            name = event.name
            tables[name] = table = Table(lambda: tables.pop(name, None))
        table.add(listener, prepend=prepend)
        return listener


async def _wrapped(
    listeners: tuple[Listener, ...], payload: object, inner: Callable[[], Any], event: Event
) -> Any:
    """Calls the first listener around the rest of them."""
    while listeners and not listeners[0].take():
        listeners = listeners[1:]
    if not listeners:
        return await finish(inner())
    listener, rest = listeners[0], listeners[1:]
    calls = running = 0

    async def call_next() -> Any:
        nonlocal calls, running
        if running or (calls and not event.repeat):
            who = getattr(listener.fn, "__qualname__", repr(listener.fn))
            raise NextCalledTwiceError(event.name, who, overlapping=running > 0)
        calls += 1
        running += 1
        try:
            return await _wrapped(rest, payload, inner, event)
        finally:
            running -= 1

    return await finish(listener.fn(payload, call_next))
