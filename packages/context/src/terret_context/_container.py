"""`Container`: the root context, and the block in which everything runs."""

import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import anyio
from anyio import CancelScope

from . import diagnostics
from ._context import Context
from ._effects import Effect, drive, flatten
from ._errors import ContextError, TeardownTimeoutError
from ._fiber import ACTIVE, DISPOSED, Fiber
from ._kernel import Kernel
from ._plugins import as_plugin
from ._transitions import drain, undo_all
from ._waits import refuse_circular_wait


class Container(Context):
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
        self._outer = anyio.create_task_group()
        await self._outer.__aenter__()
        kernel = self._kernel
        kernel.cancel_block = self._outer.cancel_scope.cancel
        self.fiber.target, self.fiber.committed = (0, ()), {}
        self.fiber.set_state(ACTIVE)
        await self._outer.start(kernel.run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        kernel = self._kernel
        kernel.request_exit()
        with CancelScope(shield=True):
            await kernel.done.wait()
        failures = self._exit_failures()
        cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        reason = (kind, error, traceback) if cancelled else (None, None, None)
        swallowed = await self._outer.__aexit__(*reason)
        if kernel.fatal_error is not None:
            raise kernel.fatal_error
        if error is None and failures:
            raise ExceptionGroup("closing the container", failures)
        for failure in failures:
            kernel.report(self.fiber, failure, "teardown")
            if error is not None:
                error.add_note(f"closing the container failed too: {failure!r}")
        return cancelled and bool(swallowed)

    def __del__(self) -> None:
        if getattr(self, "_entered", False) and not self._kernel.done.is_set():
            warnings.warn(f"{self!r} was never closed", ResourceWarning, stacklevel=1, source=self)

    async def settle(self) -> None:
        """Returns when no fiber has work left."""
        refuse_circular_wait(self.fiber, "settle")
        await self._kernel.settle()

    async def reset(self) -> None:
        """Disposes all children and effects of root, which then can be used again."""
        refuse_circular_wait(self.fiber, "reset")
        errors: list[Exception] = []
        with CancelScope(shield=True):
            for binding in tuple(self.fiber.bindings.values()):
                binding.live = False
                self._kernel.touch_dependents(binding)
            await drive(drain(self.fiber))
            await drive(undo_all(self.fiber, errors))
        for error in flatten(errors):
            self._kernel.report(self.fiber, error, "reset")

    def fibers(self, plugin: object | None = None) -> tuple[Fiber, ...]:
        """Returns the live fibers, or those of one plugin, in order of mounting."""
        if plugin is None:
            return tuple(self._kernel.fibers)
        record = as_plugin(plugin)
        return tuple(fiber for fiber in self._kernel.fibers if fiber.plugin == record)

    def mount_check(self, fn: Callable[[Fiber], object]) -> Effect:
        """Adds a check that runs in `ctx.plugin()`; what it raises refuses the mount."""
        checks = self._kernel.mount_checks

        def add() -> Callable[[], object]:
            key = object()
            checks[key] = fn
            return lambda: checks.pop(key, None)

        return self.effect(add, label="mount check")

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[list[Fiber]]:
        """Applies many changes as one: no load starts inside; leaving it settles them.

        The yielded list then holds the fibers that failed on the way. Whoever runs the batch has
        their errors, so they are not logged as well.
        """
        kernel = self._kernel
        outer, kernel.failures = kernel.failures, []
        failed = kernel.failures
        try:
            kernel.hold_loads()
            try:
                yield failed
            finally:
                kernel.release_loads()
            await self.settle()
        finally:
            kernel.failures = outer

    def installed_hint(self, fn: Callable[[str], Sequence[str]]) -> Effect:
        """Lets `fn(key)` say which installed plugins would provide a key that nobody provides."""
        kernel = self._kernel

        def add() -> Callable[[], object]:
            before, kernel.hint = kernel.hint, fn
            return lambda: setattr(kernel, "hint", before)

        return self.effect(add, label="installed hint")

    def snapshot(self) -> dict[str, Any]:
        """Returns the whole state as JSON-able data; equal up to uids means equal in behaviour."""
        return diagnostics.snapshot(self._kernel)

    def explain(self, fiber: Fiber) -> diagnostics.Explanation:
        """Says in which state a fiber is and why; `str()` of the result is the text."""
        return diagnostics.explain(self._kernel, fiber)

    def _exit_failures(self) -> list[Exception]:
        root = self.fiber
        failures = flatten(root.teardown_errors)
        if root.state is not DISPOSED:
            deadline = self._kernel.close_deadline
            failures.append(TeardownTimeoutError("the teardown", "root", deadline))
            root.state = DISPOSED
        return failures
