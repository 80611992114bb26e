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

    __slots__ = ("_ended", "_scope", "_stopping", "_task")

    def __init__(self, owner: Owner, label: str) -> None:
        self._ended = anyio.Event()
        self._scope: CancelScope | None = None
        self._stopping = False
        self._task: int | None = None
        super().__init__(owner, label)

    def start(self) -> None:
        self.owner.kernel.start(self._main, self.label)

    def async_part(self) -> str | None:
        return None if self._ended.is_set() else self.label

    def _steps(self, errors: list[Exception]) -> Steps:
        self._ask_to_stop()
        yield partial(self._join, errors)

    async def _join(self, errors: list[Exception]) -> None:
        if anyio.get_current_task().id == self._task:
            return  # a task cannot wait for its own end
        if not await self._ends_in_time():
            errors.append(
                TeardownTimeoutError(self.label, str(self.owner), self.owner.kernel.grace)
            )
            if not self._stopping:
                self._cancel()
                await self._ends_in_time()

    async def _ends_in_time(self) -> bool:
        deadline = anyio.current_time() + self.owner.kernel.grace
        with CancelScope(shield=True, deadline=deadline):
            await self._ended.wait()
        return self._ended.is_set()

    def _ask_to_stop(self) -> None:
        self._cancel()

    def _cancel(self) -> None:
        self._stopping = True
        if self._scope is not None:
            self._scope.cancel()

    async def _main(self) -> None:
        TRANSITION.set(None)
        self._task = anyio.get_current_task().id
        try:
            with CancelScope() as self._scope:
                if self._stopping:
                    self._scope.cancel()
                await self._run()
        except Exception as error:
            self._failed(error)
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

    __slots__ = ("_contain", "_fn")

    def __init__(
        self,
        owner: Owner,
        label: str,
        fn: Callable[[], Awaitable[object]],
        contain: Callable[[Exception], None] | None = None,
    ) -> None:
        self._fn = fn
        self._contain = contain
        super().__init__(owner, label)
        self.start()

    def cancel(self) -> None:
        """Asks the task to stop without waiting for it."""
        self.owner.kernel.check_thread("cancel", self.label)
        self._cancel()

    async def join(self) -> None:
        """Returns when the task has ended, however it ended."""
        await self._ended.wait()

    async def _run(self) -> None:
        await self._fn()

    def _failed(self, error: Exception) -> None:
        if self._contain is not None:
            self._contain(error)
        else:
            super()._failed(error)
