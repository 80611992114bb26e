"""The task of one episode: everything asynchronous of a load and of its unload runs in it."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import anyio
from anyio import CancelScope

from ._effects import Call
from ._waits import TRANSITION, Transition

CANCELLED: Final = object()
"""What a transition receives for a call that ran out of time and was cancelled."""


class Actor:
    """Drives the calls of one episode, one at a time, in a task of its own.

    Bodies may hold cancel scopes and task groups open while this task waits for the next call: a
    scope opened here is left before the body goes on, so all of them nest.
    """

    def __init__(self, fiber: Any, resume: Callable[[Any, object, Exception | None], None]) -> None:
        self._fiber = fiber
        self._resume = resume
        self._call: Call | None = None
        self._wake = anyio.Event()
        self._finished = False
        self._held: AsyncGenerator[object, None] | None = None
        self._scope: CancelScope | None = None
        self._limit: float | None = None

    def submit(self, call: Call) -> None:
        """Hands over the next call; its outcome goes to `resume`."""
        self._call = call
        self._wake.set()

    def finish(self) -> None:
        """Ends the task: the episode is over."""
        self._finished = True
        self._wake.set()

    def hold(self, generator: AsyncGenerator[object, None]) -> None:
        """Notes a body that is suspended in this task and may hold scopes open."""
        self._held = generator

    def release(self, generator: AsyncGenerator[object, None]) -> bool:
        """Tells whether the suspended body is still alive, which then is resumed next."""
        alive = self._held is generator
        self._held = None
        return alive

    @property
    def limited(self) -> bool:
        return self._limit is not None

    def limit(self, seconds: float | None) -> None:
        """Gives the running body this much time, or all the time again."""
        self._limit = None if seconds is None else anyio.current_time() + seconds
        self._apply_limit()

    def _apply_limit(self) -> None:
        if self._scope is not None:
            self._scope.deadline = float("inf") if self._limit is None else self._limit

    async def run(self) -> None:
        while not self._finished:
            # A second round is needed only if a body has run out of time: its scope is spent.
            with CancelScope() as self._scope:
                self._apply_limit()
                await self._serve()

    async def _serve(self) -> None:
        spent = False
        while not (self._finished or spent):
            if self._call is None:
                await self._next_call()
                continue
            call, self._call = self._call, None
            value, error = await self._perform(call)
            spent = value is CANCELLED
            if spent:
                self._limit = None
            self._resume(self._fiber, value, error)

    async def _next_call(self) -> None:
        try:
            await self._wake.wait()
        except BaseException as error:
            if self._held is None:
                raise
            await self._end_body(error)
        self._wake = anyio.Event()

    async def _end_body(self, cause: BaseException) -> None:
        """A scope that the suspended body holds open was cancelled: the body has to leave it."""
        body, self._held = self._held, None
        assert body is not None
        try:
            await body.athrow(cause)
        except StopAsyncIteration:
            failure: Exception = RuntimeError("the body ended by itself while the plugin was up")
        except Exception as error:
            failure = error
        else:
            await body.aclose()
            failure = RuntimeError("the body yielded again after its scope had been cancelled")
        self._fiber.fail(failure, "body")

    async def _perform(self, call: Call) -> tuple[object, Exception | None]:
        kind = "load" if self._fiber.state.value == "LOADING" else "unload"
        TRANSITION.set(Transition(self._fiber, kind))
        try:
            return await call(), None
        except Exception as error:
            return None, error
        except BaseException as error:
            if not isinstance(error, anyio.get_cancelled_exc_class()):
                self._fiber.kernel.fatal(error)
            return CANCELLED, None
