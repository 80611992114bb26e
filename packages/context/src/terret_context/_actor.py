"""The task of one episode: everything asynchronous of a load and of its unload runs in it."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import anyio
from anyio import CancelScope

from ._effects import Call, finish_async
from ._states import LOADING
from ._waits import TRANSITION, Transition

CANCELLED: Final = object()
"""What a transition receives for a call that ran out of time and was cancelled."""

_NEVER: Final = float("inf")


class Actor:
    """Drives the calls of one episode, one at a time, in a task of its own.

    Bodies may hold cancel scopes and task groups open while this task waits for the next call. All
    of them nest in the scope of the episode, whose deadline is that of the running body. Only a
    body that ran out of time makes the task leave that scope and open another one.
    """

    def __init__(self, fiber: Any, resume: Callable[[Any, object, Exception | None], None]) -> None:
        self._fiber = fiber
        self._resume = resume
        self._call: Call | None = None
        self._wake: anyio.Event | None = None
        self._finished = False
        self._held: AsyncGenerator[object, None] | None = None
        self._scope: CancelScope | None = None
        self._deadline = _NEVER

    def submit(self, call: Call) -> None:
        """Hands over the next call; its outcome goes to `resume`."""
        self._call = call
        if self._wake is not None:
            self._wake.set()

    def finish(self) -> None:
        """Ends the task, after the call that it may have: the episode is over."""
        self._finished = True
        if self._wake is not None:
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
        return self._deadline != _NEVER

    def limit(self, seconds: float | None) -> None:
        """Gives the running body this much time, or all the time again."""
        if seconds is not None:
            self._set_deadline(self._fiber.kernel.now + seconds)
        elif self.limited:
            self._set_deadline(_NEVER)

    def _set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._scope is not None:
            self._scope.deadline = deadline

    async def run(self) -> None:
        while not self._finished:
            error: Exception | None = None
            try:
                with CancelScope(deadline=self._deadline) as self._scope:
                    await self._serve()
            except Exception as failure:
                if self._call is None:
                    raise  # a mistake of the container, which ends it
                error = failure
            except BaseException as worse:
                if isinstance(worse, anyio.get_cancelled_exc_class()):
                    raise  # the container ends, and nobody waits for the outcome any more
                error = self._fiber.kernel.fatal(worse)
            self._deadline = _NEVER
            if self._call is not None:
                self._call = None
                self._resume(self._fiber, CANCELLED, error)

    async def _serve(self) -> None:
        while self._call is not None or not self._finished:
            if self._call is None:
                await self._next_call()
                continue
            kind = "load" if self._fiber.state is LOADING else "unload"
            TRANSITION.set(Transition(self._fiber, kind))
            value = await self._call()
            self._call = None
            self._resume(self._fiber, value, None)

    async def _next_call(self) -> None:
        self._wake = self._fiber.kernel.event()
        try:
            await self._wake.wait()
        except BaseException as error:
            if self._held is not None:
                await self._end_body(error)
            elif self._call is None:
                raise
            # else the call resumes the body, which gets the cancellation at its next await
        finally:
            self._wake = None

    async def _end_body(self, cause: BaseException) -> None:
        """A scope that the suspended body holds open was cancelled: the body has to leave it."""
        body, self._held = self._held, None
        assert body is not None
        failure: Exception = RuntimeError("the body ended by itself while the plugin was up")
        try:
            await finish_async(body, "a body whose scope was cancelled", cause)
        except Exception as error:
            failure = error
        failure.add_note(f"in the body of {self._fiber}")
        self._fiber.fail(failure, "body")
