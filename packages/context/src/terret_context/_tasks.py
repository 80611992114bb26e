"""Effects that have a task of their own in the kernel's group."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio import CancelScope

from ._effects import Effect, Owner, Steps
from ._errors import TeardownTimeoutError
from ._waits import TRANSITION


class TaskEffect(Effect):
    """An effect with a task of its own, which is asked to stop and joined when it is undone."""

    __slots__ = ("_ended", "_main_task", "_scope", "_stopping")

    def __init__(self, owner: Owner, label: str) -> None:
        self._ended = anyio.Event()
        self._scope: CancelScope | None = None
        self._stopping = False
        self._main_task: int | None = None
        super().__init__(owner, label)

    def start(self) -> None:
        try:
            self.owner.kernel.start(self._main, self.label)
        except Exception:
            self.finish()
            raise

    def async_part(self) -> str | None:
        return None if self._ended.is_set() else self.label

    def _steps(self, errors: list[Exception]) -> Steps:
        self._ask_to_stop()
        yield partial(self._join, errors)

    async def _join(self, errors: list[Exception]) -> None:
        if anyio.get_current_task().id == self._main_task:
            return  # a task cannot wait for its own end
        grace = self.owner.kernel.grace
        with CancelScope(shield=True, deadline=anyio.current_time() + grace):
            await self._ended.wait()
        if self._ended.is_set():
            return
        errors.append(TeardownTimeoutError(self.label, str(self.owner), grace))
        self._cancel()
        with CancelScope(shield=True, deadline=anyio.current_time() + grace):
            await self._ended.wait()

    def _ask_to_stop(self) -> None:
        self._cancel()

    def _cancel(self) -> None:
        self._stopping = True
        if self._scope is not None:
            self._scope.cancel()

    async def _main(self) -> None:
        TRANSITION.set(None)
        self._main_task = anyio.get_current_task().id
        try:
            with CancelScope() as self._scope:
                if self._stopping:
                    self._scope.cancel()
                await self._run()
        except Exception as error:
            self._failed(error)
        except BaseException as error:
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            self.owner.kernel.fatal(error)
        finally:
            self._ended.set()
            if self._phase == "open":
                self.finish()

    async def _run(self) -> None:
        raise NotImplementedError

    def _failed(self, error: Exception) -> None:
        error.add_note(f"in {self.label} of {self.owner}")
        self.owner.fail(error, self.label)


class TaskHandle(TaskEffect):
    """A task made by `ctx.spawn`: its crash makes the fiber FAILED, undoing it joins it."""

    __slots__ = ("_contained", "_fn")

    def __init__(
        self,
        owner: Owner,
        label: str,
        fn: Callable[[], Awaitable[object]],
        *,
        contained: bool = False,
    ) -> None:
        self._fn = fn
        self._contained = contained
        super().__init__(owner, label)

    def cancel(self) -> None:
        """Asks the task to stop without waiting for it."""
        self._cancel()

    async def join(self) -> None:
        """Returns when the task has ended, however it ended."""
        await self._ended.wait()

    async def _run(self) -> None:
        await self._fn()

    def _failed(self, error: Exception) -> None:
        if self._contained:
            self.owner.kernel.report(self.owner, error, self.label)
        else:
            super()._failed(error)
