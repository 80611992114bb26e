"""What a container knows of its fibers, bindings and listeners, and what it says of them."""

from collections.abc import Callable, Sequence
from typing import Any

from ._dispatch import Failed, Listener, Table, emit
from ._effects import flatten
from ._events import Event
from ._fiber import Fiber
from ._internal import (
    INTERNAL_ERROR,
    INTERNAL_SERVICE,
    INTERNAL_STATUS,
    ContainedError,
    ServiceChange,
    StatusChange,
    log,
)
from ._keeper import Keeper
from ._services import Binding, BindingTable
from ._states import DISPOSED, FAILED, UNLOADING, FiberState


class Register(Keeper):
    """Fibers, bindings and listeners, with the indexes that a change of them needs."""

    root: Fiber

    def __init__(self) -> None:
        super().__init__()
        self.fibers: dict[Fiber, None] = {}
        self.table = BindingTable(self.touch_dependents)
        self.tables: dict[str, Table] = {}
        self.caches: list[dict[Any, Any]] = []
        self.mount_checks: dict[object, Callable[[Fiber], object]] = {}
        self.hint: Callable[[str], Sequence[str]] = lambda key: ()
        self.explain: Callable[[Fiber], object] = str
        self.failures: list[Fiber] | None = None
        self._adaptive: dict[Fiber, None] = {}
        self.edges_are_new = False
        self._uid = 0

    def touch(self, fiber: Fiber) -> None:
        raise NotImplementedError

    def next_uid(self) -> int:
        self._uid += 1
        return self._uid

    def adopt(self, fiber: Fiber) -> None:
        """Enters a new fiber into the indexes."""
        self.fibers[fiber] = None
        if fiber.needs or fiber.provides:
            self.table.enter(fiber)
            self.edges_changed()
            if not all(required for _, required in fiber.needs):
                self._adaptive[fiber] = None

    def forget(self, fiber: Fiber) -> None:
        """Takes a disposed fiber out of the indexes, and off its parent's stack."""
        del self.fibers[fiber]
        self._adaptive.pop(fiber, None)
        if fiber.needs or fiber.provides or fiber.given:
            self.table.leave(fiber)
            for key in fiber.provides:
                for heir in self.table.declared(fiber.slot(key)):
                    self.touch(heir)
            self.edges_changed()
        if fiber.handle is not None:
            fiber.handle.finish()
            fiber.handle = fiber.held = None

    def edges_changed(self) -> None:
        """Has optional keys evaluated, which may count or not by what would be a cycle now."""
        self.edges_are_new = True
        for fiber in self._adaptive:
            self.touch(fiber)

    def touch_dependents(self, binding: Binding) -> None:
        """Has everybody evaluated who declares the key of a binding that came, went or counts."""
        self.forget_lookups()
        for fiber in self.table.dependents(binding.slot):
            self.touch(fiber)
        if not binding.live:
            for heir in self.table.declared(binding.slot):
                self.touch(heir)
        if binding.is_new:
            binding.is_new = False
            self.edges_changed()
        offered = binding.offered and self.table.at(binding.slot) is binding
        if offered is not binding.announced:
            binding.announced = offered
            if INTERNAL_SERVICE.name in self.tables:
                provider = binding.fiber if offered else None
                self.emit(INTERNAL_SERVICE, ServiceChange(binding.key, binding.realm, provider))

    def forget_lookups(self) -> None:
        """Empties the caches of contexts: a binding, a committed view or a realm has changed."""
        if self.caches:
            for cache in self.caches:
                cache.clear()
            self.caches.clear()

    def emit(self, event: Event, payload: object, failed: Failed | None = None) -> None:
        table = self.tables.get(event.name)
        if table is not None:
            try:
                emit(table.select(event.name).listeners, (payload,), failed)
            except BaseException as error:  # of a listener, such as SystemExit
                self.fatal(error)

    def status(self, fiber: Fiber, old: FiberState) -> None:
        """Tells everybody that a fiber has changed its state."""
        fiber.since = self.now
        if INTERNAL_STATUS.name in self.tables:
            self.emit(INTERNAL_STATUS, StatusChange(fiber, old, fiber.state))
        fiber.notify()

    def report(self, fiber: Fiber, error: BaseException, label: str) -> None:
        """Contains a failure: log, each member of a group by itself, and `internal/error`, once."""
        for leaf in flatten([error]) if isinstance(error, Exception) else (error,):
            log.error(
                "%s of %s failed: %s: %s",
                *(label, fiber, type(leaf).__name__, leaf),
                exc_info=leaf,
                extra={"plugin": fiber.name, "fiber": fiber.uid},
            )
        self.emit(INTERNAL_ERROR, ContainedError(fiber, label, error), _listener_failed)

    def announce(self, fiber: Fiber) -> None:
        """Gives the error of a fiber to those who wait for it, to a batch, or to the log.

        Only the log is left if the fiber is not FAILED: it was loaded again, or disposed.
        """
        failed = fiber.state is FAILED
        if fiber.announced or fiber.error is None or (failed and fiber.observers):
            return
        fiber.announced = True
        if self.fatal_error is not None:
            return
        if failed and self.failures is not None:
            self.failures.append(fiber)
        else:
            self.report(fiber, fiber.error, fiber.failed_in)

    def report_failures(self, fiber: Fiber) -> None:
        """Reports the failures of an unload, or gives them to an unload that it is part of."""
        if not fiber.failures or fiber.collectors or fiber is self.root:
            return
        above = (up for up in fiber.ancestors() if up.state is not DISPOSED)
        around = next((up for up in above if up.retiring or up.state is UNLOADING), None)
        if around is None:
            for error in fiber.failures:
                self.report(fiber, error, "teardown")
        elif fiber.state is DISPOSED:  # before its turn, so nobody else collects them
            around.failures += fiber.failures
        if not (fiber.retiring or around):
            fiber.failures = []


def _listener_failed(listener: Listener, error: Exception) -> None:
    """Only logs: a failure of a listener for failures must not be reported for ever."""
    log.error("%s of %s failed: %r", listener.label, listener.owner, error, exc_info=error)
