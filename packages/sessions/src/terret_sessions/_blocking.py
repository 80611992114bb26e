from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

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
        try:
            return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)
        except anyio.get_cancelled_exc_class():
            if call.withdraw():
                raise
            with anyio.move_on_after(self._grace, shield=True):
                while not call.ended:  # noqa: ASYNC110 - a thread cannot set an event of a loop
                    await anyio.sleep(_POLL_SECONDS)
            raise


class _Call(Generic[T]):
    """A call that begins in a thread, if nobody has withdrawn it before."""

    def __init__(self, fn: Callable[[], T]) -> None:
        self.ended = False
        self._fn = fn
        self._begin = Lock()

    def withdraw(self) -> bool:
        """Keep the call from beginning; False if it has begun."""
        return self._begin.acquire(blocking=False)

    def __call__(self) -> T:
        if not self._begin.acquire(blocking=False):
            raise RuntimeError("withdrawn")  # nobody waits for it
        try:
            return self._fn()
        finally:
            self.ended = True


_POLL_SECONDS: Final = 0.005
