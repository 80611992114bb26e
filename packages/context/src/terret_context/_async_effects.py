"""Effects whose setup is asynchronous: setup and undo run in one task of their own."""

import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio

from ._effects import Effect, Owner, Steps, drive, flatten, note_failure, yielded_again
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
        "_items",
        "_observers",
        "_set_up_done",
        "_stop",
        "_suspended",
        "value",
    )

    def __init__(self, owner: Owner, label: str, body: Callable[[], Any]) -> None:
        self._body = body
        self._error: Exception | None = None
        self._failures: list[Exception] = []
        self._items: list[Any] = []
        self._suspended: AsyncGenerator[Any, Any] | None = None
        self._observers = 0
        self._set_up_done = anyio.Event()
        self._stop = anyio.Event()
        self.value: Any = None
        super().__init__(owner, label)
        self.start()

    @property
    def children(self) -> Sequence[Effect]:
        parts = (item for item in self._items if isinstance(item, Effect))
        return tuple(child for part in parts for child in part.children)

    async def _set_up(self) -> Effect:
        self._observers += 1
        await self._set_up_done.wait()
        if self._error is not None:
            raise self._error
        return self

    def _ask_to_stop(self) -> None:
        self._stop.set()

    async def _run(self) -> None:
        cause: BaseException | None = None
        try:
            await self._collect_all()
            self._set_up_done.set()
            if self._items or self._suspended is not None:
                await self._stop.wait()
        except BaseException as error:
            cause = error
        await self._end(cause)

    async def _end(self, cause: BaseException | None) -> None:
        """Takes down what was set up; `cause` is what ended the setup or the time after it."""
        failed_setup = isinstance(cause, Exception)
        rest = await self._take_down(None if failed_setup else cause, self._failures)
        if not failed_setup:
            cause = rest
        if not self._set_up_done.is_set():
            cause = self._setup_ended(cause)
        if not self._stop.is_set():  # else whoever asked for it has them
            for failure in self._failures:
                self.owner.kernel.report(self.owner, failure, self.label)
        if cause is not None:
            raise cause

    def _setup_ended(self, cause: BaseException | None) -> BaseException | None:
        """Gives a setup that did not land its error; returns what else has to be raised."""
        self._set_up_done.set()
        if not isinstance(cause, Exception):
            self._error = InactiveFiberError(f"set up {self.label}", str(self.owner), "UNLOADING")
            return cause
        cause.add_note(f"in the setup of {self.label} of {self.owner}")
        self._error = cause
        if not self._observers:
            self.owner.kernel.report(self.owner, cause, self.label)
        return None

    async def _collect_all(self) -> None:
        result = self._body()
        if not inspect.isasyncgen(result):
            await self._collect(await result if inspect.isawaitable(result) else result)
            return
        try:
            async for value in result:
                if value is None:
                    self._suspended = result
                    return
                await self._collect(value)
                if self._stop.is_set():
                    break
        finally:
            if self._suspended is None:
                await result.aclose()

    async def _collect(self, value: Any) -> None:
        if isinstance(value, AbstractAsyncContextManager):
            self.value = await value.__aenter__()
            self._items.append(value)
        elif value is not None:
            plain = Registration(self.owner, self.label, owned=False)
            self._items.append(plain)
            self.value = plain.collect(value)

    async def _take_down(
        self, cause: BaseException | None, errors: list[Exception]
    ) -> BaseException | None:
        """Undoes all items; returns what of `cause`, or of an item's exit, goes on outwards."""
        for item in reversed(self._items):
            if isinstance(item, AbstractAsyncContextManager):
                cause = await self._leave(partial(_exit, item, cause), cause, errors)
            else:
                await drive(item.undo(errors))
        if self._suspended is not None:
            leave = partial(_resume, self._suspended, cause, self.label)
            cause = await self._leave(leave, cause, errors)
        return cause

    async def _leave(
        self, leave: Callable[[], Any], cause: BaseException | None, errors: list[Exception]
    ) -> BaseException | None:
        try:
            swallowed = await leave()
        except Exception as error:
            if cause is not None:
                return error
            note_failure(error, self, errors)
            return None
        except BaseException as error:
            return error
        return None if swallowed else cause

    def _steps(self, errors: list[Exception]) -> Steps:
        yield from super()._steps(errors)
        errors += self._failures

    def _failed(self, error: Exception) -> None:
        if self._stop.is_set():
            self._failures += flatten([error])
        else:
            super()._failed(error)


async def _exit(
    manager: AbstractAsyncContextManager[object], cause: BaseException | None
) -> object:
    if cause is None:
        return await manager.__aexit__(None, None, None)
    return await manager.__aexit__(type(cause), cause, cause.__traceback__)


async def _resume(
    generator: AsyncGenerator[object, None], cause: BaseException | None, label: str
) -> object:
    try:
        if cause is None:
            await anext(generator)
        else:
            await generator.athrow(cause)
    except StopAsyncIteration:
        return True
    await generator.aclose()
    raise yielded_again(label)
