from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread

T = TypeVar("T")


class BlockingCalls:
    """Runs blocking calls in at most `limit` threads of its own.

    A cancelled caller still waits for its call, for at most `grace` seconds; then the thread is
    left alone, and nobody learns what became of the call.
    """

    def __init__(self, *, grace: float = 10.0, limit: int = 8) -> None:
        self._grace = grace
        self._limiter = CapacityLimiter(limit)

    async def run(self, fn: Callable[[], T]) -> T:
        """Run `fn` and return what it returns, or raise what it raises."""
        call = _Call(fn)
        async with anyio.create_task_group() as group:
            group.start_soon(call.run, self._limiter)
            try:
                await call.done.wait()
            except anyio.get_cancelled_exc_class():
                call.scope.deadline = anyio.current_time() + self._grace
                raise
        if call.error is not None:
            raise call.error
        return call.results[0]


class _Call(Generic[T]):
    def __init__(self, fn: Callable[[], T]) -> None:
        self.scope = CancelScope(shield=True)
        self.done = anyio.Event()
        self.results: list[T] = []
        self.error: Exception | None = None
        self._fn = fn

    async def run(self, limiter: CapacityLimiter) -> None:
        try:
            with self.scope:
                self.results.append(
                    await to_thread.run_sync(self._fn, abandon_on_cancel=True, limiter=limiter)
                )
        except Exception as error:
            self.error = error
        finally:
            self.done.set()
