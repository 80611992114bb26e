"""Effects whose setup is asynchronous: setup and undo run in one task of their own."""

import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any

import anyio

from ._effects import Effect, Owner, Steps, drive, finish_async, flatten, note_failure
from ._errors import InactiveFiberError
from ._registrations import Registration
from ._tasks import TaskEffect


class AsyncEffect(TaskEffect):
    """`ctx.effect(body)` with an async body, and `ctx.enter_async(manager)`.

    `await effect` waits for the setup and raises its error.
    """

    __slots__ = (
        "_body",
        "_error",
        "_failures",
        "_is_empty",
        "_observers",
        "_parts",
        "_set_up_done",
        "_stop",
        "value",
    )

    def __init__(self, owner: Owner, label: str, body: Callable[[], Any]) -> None:
        self._body = body
        self._error: Exception | None = None
        self._failures: list[Exception] = []
        self._is_empty = True
        self._observers = 0
        self._parts: list[Registration] = []
        self._set_up_done = anyio.Event()
        self._stop = anyio.Event()
        self.value: Any = None
        super().__init__(owner, label)
        self.start()

    @property
    def children(self) -> Sequence[Effect]:
        return tuple(child for part in self._parts for child in part.children)

    async def _set_up(self) -> Effect:
        self._observers += 1
        await self._set_up_done.wait()
        if self._error is not None:
            raise self._error
        return self

    def _ask_to_stop(self) -> None:
        self._stop.set()

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as undo:
                try:
                    await self._collect_all(undo)
                except Exception as error:
                    self._error = error
                else:
                    self._set_up_done.set()
                    if not self._is_empty:
                        await self._stop.wait()
        except Exception as error:  # of a manager
            if self._set_up_done.is_set():
                raise
            self._error = error
        finally:
            if not self._set_up_done.is_set():
                self._fail_setup()
            if not self._stop.is_set():  # else whoever asked for it has them
                for failure in self._failures:
                    self.owner.kernel.report(self.owner, failure, self.label)

    def _fail_setup(self) -> None:
        if self._error is None:  # it was cancelled
            self._error = InactiveFiberError(f"set up {self.label}", str(self.owner), "UNLOADING")
        else:
            self._error.add_note(f"in the setup of {self.label} of {self.owner}")
            if not self._observers:
                self.owner.kernel.report(self.owner, self._error, self.label)
        self._set_up_done.set()

    async def _collect_all(self, undo: AsyncExitStack) -> None:
        result = self._body()
        if inspect.isasyncgen(result):
            await self._collect_steps(undo, result)
        else:
            await self._collect(undo, await result if inspect.isawaitable(result) else result)

    async def _collect_steps(self, undo: AsyncExitStack, steps: AsyncGenerator[Any, Any]) -> None:
        suspended = False

        async def end(_: object, cause: BaseException | None, __: object) -> bool:
            if suspended:
                await finish_async(steps, self.label, cause)
            else:
                await steps.aclose()
            return suspended

        undo.push_async_exit(partial(self._leave, end))
        async for value in steps:
            if value is None:
                suspended, self._is_empty = True, False
                return
            await self._collect(undo, value)
            if self._stop.is_set():
                return

    async def _collect(self, undo: AsyncExitStack, value: Any) -> None:
        if value is None:
            return
        self._is_empty = False
        if isinstance(value, AbstractAsyncContextManager):
            self.value = await value.__aenter__()
            undo.push_async_exit(partial(self._leave, value.__aexit__))
        else:
            part = Registration(self.owner, self.label, owned=False)
            self._parts.append(part)
            undo.push_async_callback(drive, part.undo(self._failures))
            self.value = part.collect(value)

    async def _leave(self, leave: Callable[..., Any], *reason: Any) -> bool:
        """Leaves a manager; if it fails by itself, those around it are left as usual."""
        try:
            return bool(await leave(*reason))
        except Exception as error:
            if reason[0] is not None:
                raise
            note_failure(error, self, self._failures)
            return False

    def _steps(self, errors: list[Exception]) -> Steps:
        yield from super()._steps(errors)
        errors += self._failures

    def _failed(self, error: Exception) -> None:
        if self._stop.is_set():
            self._failures += flatten([error])
        else:
            super()._failed(error)
