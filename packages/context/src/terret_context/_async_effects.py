"""Effects whose setup is asynchronous: setup and undo run in one task of their own."""

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio

from ._effects import (
    Effect,
    Owner,
    Registration,
    Steps,
    drive,
    flatten,
    note_failure,
)
from ._errors import InvalidEffectError
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
            await self._collect_all()
        except Exception as error:
            await self._setup_failed(error)
            return
        finally:
            self._set_up_done.set()
        if self._items or self._suspended is not None:
            await self._hold()

    async def _setup_failed(self, error: Exception) -> None:
        error.add_note(f"in the setup of {self.label} of {self.owner}")
        self._error = error
        errors: list[Exception] = []
        await self._take_down(None, errors)
        for failure in [error, *errors] if not self._observers else errors:
            self.owner.kernel.report(self.owner, failure, self.label)

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
            plain = Registration(self.owner, self.label)
            try:
                self.value = plain.collect(value)
            finally:
                self.owner.disown(plain)
            self._items.append(plain)

    async def _hold(self) -> None:
        """Parks until the undo; a scope held open by a manager may end that early."""
        cause: BaseException | None = None
        try:
            await self._stop.wait()
        except BaseException as error:
            cause = error
        cause = await self._take_down(cause, self._failures)
        if cause is not None:
            raise cause

    async def _take_down(
        self, cause: BaseException | None, errors: list[Exception]
    ) -> BaseException | None:
        for item in reversed(self._items):
            if isinstance(item, AbstractAsyncContextManager):
                cause = await self._leave(partial(_exit, item, cause), cause, errors)
            else:
                await drive(item.undo(errors))
        if self._suspended is not None:
            cause = await self._leave(partial(_resume, self._suspended, cause), cause, errors)
        return cause

    async def _leave(
        self, leave: Callable[[], Any], cause: BaseException | None, errors: list[Exception]
    ) -> BaseException | None:
        """Leaves one manager or generator; returns the exception that goes on outwards."""
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
    return await manager.__aexit__(
        None if cause is None else type(cause),
        cause,
        None if cause is None else cause.__traceback__,
    )


async def _resume(generator: AsyncGenerator[object, None], cause: BaseException | None) -> object:
    try:
        if cause is None:
            await anext(generator)
        else:
            await generator.athrow(cause)
    except StopAsyncIteration:
        return True
    await generator.aclose()
    raise InvalidEffectError("an async effect yielded again in its teardown")
