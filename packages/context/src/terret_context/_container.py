"""`Container`: the block in which everything runs."""

import warnings
from types import TracebackType
from typing import Any

import anyio

from ._context import Root
from ._effects import flatten
from ._errors import ContextError, TeardownTimeoutError
from ._fiber import Fiber
from ._kernel import Kernel


class Container(Root):
    """The root of a tree of plugins. Use it once, as `async with Container() as root:`.

    Plugins mounted before the block wait for it. Leaving it disposes everything in order, also
    under cancellation; after that every change raises `InactiveFiberError`.

    Args:
        grace: seconds that each async part of a teardown has before it is cancelled.
        close_deadline: seconds that the whole exit has.
        restart_budget: most loads in so many seconds that changes of dependencies may cause.
    """

    __slots__ = ("__weakref__", "_entered", "_outer")

    def __init__(
        self,
        *,
        grace: float = 10.0,
        close_deadline: float = 30.0,
        restart_budget: tuple[int, float] = (20, 10.0),
    ) -> None:
        kernel = Kernel(grace=grace, close_deadline=close_deadline, restart_budget=restart_budget)
        kernel.explain = self.explain
        root = kernel.root = Fiber(kernel, 0, None, None, name="root")
        super().__init__(root, None, None)
        root.ctx = self
        kernel.fibers[root] = None
        self._entered = False
        self._outer: Any = None

    async def __aenter__(self) -> "Container":
        if self._entered:
            raise ContextError("a Container is entered once; make a new one")
        self._entered = True
        kernel = self._kernel
        kernel.enter_thread()
        self._outer = anyio.create_task_group()
        await self._outer.__aenter__()
        kernel.cancel_block = self._outer.cancel_scope.cancel
        self.fiber.bring_up()
        self._outer.start_soon(kernel.run, name="terret kernel")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        kernel = self._kernel
        kernel.request_exit()
        cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        # The group waits for the kernel, which no cancellation reaches, and leaves an exception of
        # the block alone that it does not see.
        reason = (kind, error, traceback) if cancelled else (None, None, None)
        try:
            swallowed = await self._outer.__aexit__(*reason)
        except BaseException as cancellation:
            self._tell_failures(kernel.fatal_error or cancellation)
            if kernel.fatal_error is not None:
                raise kernel.fatal_error from None
            raise
        if kernel.fatal_error is not None:
            self._tell_failures(kernel.fatal_error)
            raise kernel.fatal_error
        if error is None and (failures := self._exit_failures()):
            raise ExceptionGroup("closing the container", failures)
        self._tell_failures(error)
        return cancelled and bool(swallowed)

    def __del__(self) -> None:
        if getattr(self, "_entered", False) and not self._kernel.closed:
            warnings.warn(f"{self!r} was never closed", ResourceWarning, stacklevel=1, source=self)

    def _tell_failures(self, error: BaseException | None) -> None:
        """Logs what failed in the exit, beside the exception that leaves the block."""
        for failure in self._exit_failures():
            self._kernel.report(self.fiber, failure, "teardown")
            if error is not None:
                error.add_note(f"closing the container failed too: {failure!r}")

    def _exit_failures(self) -> list[Exception]:
        kernel, root = self._kernel, self.fiber
        late = [fiber for fiber in kernel.fibers if fiber is not root]
        failures = [error for fiber in (root, *late) for error in fiber.failures]
        if late:
            names = ", ".join(map(str, late))
            what = f"root (held up by {names})"
            failures.append(TeardownTimeoutError("the teardown", what, kernel.close_deadline))
        return list(flatten(failures))
