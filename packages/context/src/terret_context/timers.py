"""Timers of a plugin: they end with the fiber of the context that they are given."""

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, ParamSpec

import anyio

from ._context import Context
from ._effects import Effect
from ._errors import InactiveFiberError
from ._tasks import TaskHandle

P = ParamSpec("P")


def after(ctx: Context, seconds: float, fn: Callable[[], object] | None = None) -> "Timer":
    """Calls `fn`, plain or async, once after a delay; a failure of it fails the fiber.

    `await` on the handle returns when the delay is over.
    """
    return Timer(ctx, seconds, fn)


def every(ctx: Context, seconds: float, fn: Callable[[], object]) -> TaskHandle:
    """Calls `fn`, plain or async, every so many seconds; a failure of it fails the fiber.

    Calls do not overlap; those that were due while one ran are left out.
    """

    async def run() -> None:
        beat = _Beat(seconds)
        while True:
            await anyio.sleep_until(beat.next())
            await _call(fn)

    return TaskHandle(ctx.fiber, f'timer "{_name(fn)}"', run)


def ticks(ctx: Context, seconds: float) -> "Ticks":
    """Returns an asynchronous iterator that steps every so many seconds.

    Steps that were due while the body of the loop ran are left out. When the fiber unloads, the
    step that is waited for raises `InactiveFiberError`. Nothing runs between two steps, so a loop
    may just be left.
    """
    return Ticks(ctx, seconds)


def throttle(ctx: Context, seconds: float, fn: Callable[P, object]) -> Callable[P, None]:
    """Returns a function that calls the plain function `fn` at most once in so many seconds.

    The first call runs at once. Of those that follow within the time, the last one runs at its
    end, as a task of the fiber. Once the fiber unloads, calls do nothing.
    """
    return _Throttled(ctx, seconds, fn)


def debounce(ctx: Context, seconds: float, fn: Callable[P, object]) -> Callable[P, None]:
    """Returns a function that calls the plain function `fn` when no call came for so many seconds.

    Only the last call of a burst runs, as a task of the fiber. Once the fiber unloads, calls do
    nothing.
    """
    return _Debounced(ctx, seconds, fn)


class Timer(TaskHandle):
    """A timer of `after`.

    Awaiting it raises `InactiveFiberError` if it was cancelled before its delay was over.
    """

    __slots__ = ("_over", "_rung")

    def __init__(self, ctx: Context, seconds: float, fn: Callable[[], object] | None) -> None:
        self._over = anyio.Event()
        self._rung = False
        title = f"{seconds:g} s" if fn is None else _name(fn)
        super().__init__(ctx.fiber, f'timer "{title}"', partial(self._ring, seconds, fn))

    async def _ring(self, seconds: float, fn: Callable[[], object] | None) -> None:
        try:
            await anyio.sleep(seconds)
            self._rung = True
        finally:
            self._over.set()
        if fn is not None:
            await _call(fn)

    async def _set_up(self) -> Effect:
        await self._over.wait()
        if not self._rung:
            fiber: Any = self.owner
            raise InactiveFiberError(f"wait for {self.label}", str(fiber), fiber.state.value)
        return self


class Ticks:
    """The iterator of `ticks`; it gives the number of the step."""

    def __init__(self, ctx: Context, seconds: float) -> None:
        self._fiber = ctx.fiber
        self._load = ctx.fiber.target
        self._beat = _Beat(seconds)
        self._count = 0
        self._closed = False

    def __aiter__(self) -> "Ticks":
        return self

    async def __anext__(self) -> int:
        if self._closed:
            raise StopAsyncIteration
        with anyio.CancelScope(deadline=self._beat.next()):
            while self._is_up():
                await self._fiber.changed()
        if not self._is_up():
            self._closed = True
            state = self._fiber.state.value
            raise InactiveFiberError("wait for the next tick", str(self._fiber), state)
        self._count += 1
        return self._count

    async def aclose(self) -> None:
        """Ends the iterator."""
        self._closed = True

    async def athrow(self, error: BaseException) -> None:
        """Ends the iterator and raises the error."""
        self._closed = True
        raise error

    def _is_up(self) -> bool:
        fiber = self._fiber
        return fiber.admits and (self._load is None or fiber.target is self._load)


class _Beat:
    """The times of a timer that is not late because its calls take time."""

    def __init__(self, seconds: float) -> None:
        if seconds <= 0:
            raise ValueError(f"a timer that repeats needs a positive time, not {seconds}")
        self._seconds = seconds
        self._last = anyio.current_time()

    def next(self) -> float:
        missed = (anyio.current_time() - self._last) // self._seconds
        self._last += self._seconds * max(1, missed)
        return self._last


class _Limited(Generic[P]):
    """A function whose calls are put off; it is deaf once its fiber unloads."""

    def __init__(self, ctx: Context, seconds: float, fn: Callable[P, object]) -> None:
        self._ctx = ctx
        self._seconds = seconds
        self._fn = fn
        self._put_off: Callable[[], object] | None = None
        self._task: TaskHandle | None = None
        self._alive = ctx.effect(lambda: None, label=f'timer "{_name(fn)}"')

    @property
    def _waits(self) -> bool:
        return self._task is not None and not self._task.done

    def _start(self) -> None:
        self._task = self._ctx.spawn(self._wait, name=_name(self._fn))

    async def _wait(self) -> None:
        raise NotImplementedError


class _Throttled(_Limited[P]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        if self._alive.done:
            return
        if self._waits:
            self._put_off = partial(self._fn, *args, **kwargs)
        else:
            self._start()
            self._fn(*args, **kwargs)

    async def _wait(self) -> None:
        await anyio.sleep(self._seconds)
        while self._put_off is not None:
            call, self._put_off = self._put_off, None
            call()
            await anyio.sleep(self._seconds)


class _Debounced(_Limited[P]):
    _due = 0.0

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        if self._alive.done:
            return
        self._put_off = partial(self._fn, *args, **kwargs)
        self._due = anyio.current_time() + self._seconds
        if not self._waits:
            self._start()

    async def _wait(self) -> None:
        while self._put_off is not None:
            await anyio.sleep_until(self._due)
            if anyio.current_time() >= self._due:
                call, self._put_off = self._put_off, None
                call()


async def _call(fn: Callable[[], Any]) -> None:
    result = fn()
    if hasattr(result, "__await__"):
        await result


def _name(fn: Callable[..., object]) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__
