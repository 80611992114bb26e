"""The kernel: one task that decides what loads and unloads, and keeps all others."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context as Variables
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup, TaskStatus

from ._actor import Actor
from ._dispatch import Table, emit, silence
from ._effects import Steps, flatten
from ._errors import WrongThreadError
from ._events import Emit, Event
from ._fiber import ACTIVE, DISPOSED, FAILED, LOADING, PENDING, Fiber, FiberState
from ._services import Binding, BindingTable, Realm
from ._transitions import budget_error, load, target_of, unload

log: Final = logging.getLogger("terret")

_BURST: Final = 64
"""Transitions between two visits of the event loop."""
_SLOW_LOAD: Final = 5.0
_SLOW_AGAIN: Final = 30.0

Resumption = tuple[Fiber, object, Exception | None]
Lane = deque[Any]
Main = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A fiber went from one state to another."""

    fiber: Fiber
    old: FiberState
    new: FiberState


@dataclass(frozen=True, slots=True)
class ServiceChange:
    """A binding came (`provider`) or went (`None`), or its provider became ACTIVE."""

    key: str
    realm: Realm | None
    provider: Fiber | None


@dataclass(frozen=True, slots=True)
class ContainedError:
    """A failure that stopped nothing else."""

    fiber: Fiber
    label: str
    error: BaseException


PLUGIN = Emit[Fiber]("internal/plugin", doc="A plugin was mounted; it has no target yet.")
STATUS = Emit[StatusChange]("internal/status", doc="A fiber changed its state.")
SERVICE = Emit[ServiceChange]("internal/service", doc="A service came, went or moved.")
ERROR = Emit[ContainedError]("internal/error", doc="A failure was contained, once each.")


class Kernel:
    """Run queue, task group and exit of one container."""

    def __init__(
        self, *, grace: float, close_deadline: float, restart_budget: tuple[int, float]
    ) -> None:
        self.grace = grace
        self.close_deadline = close_deadline
        self.restart_budget = restart_budget
        self.table = BindingTable(self.touch_dependents)
        self.tables: dict[str, Table] = {}
        self.caches: list[dict[Any, Any]] = []
        self.fibers: dict[Fiber, None] = {}
        self.mount_checks: dict[object, Callable[[Fiber], object]] = {}
        self.root: Fiber
        self.explain: Callable[[Fiber], object] = str
        self.hint: Callable[[str], Sequence[str]] = lambda key: ()
        self.choose: Callable[[Lane], Any] = deque.popleft  # tests put other schedulers here
        self.done = anyio.Event()
        self.fatal_error: BaseException | None = None
        self.failures: list[Fiber] | None = None
        self.cancel_block: Callable[[], None] = lambda: None
        self._urgent: Lane = deque()
        self._loads: Lane = deque()
        self._batches = 0
        self._in_flight: dict[Fiber, float] = {}
        self._wake = anyio.Event()
        self._idle = anyio.Event()
        self._tasks: TaskGroup | None = None
        self._deferred: list[tuple[Variables, Main, str]] = []
        self._loop_scope: CancelScope | None = None
        self._thread = threading.get_ident()
        self._uid = 0

    # ---- the queue

    def touch(self, fiber: Fiber) -> None:
        """Has a fiber evaluated; what may unload goes before what may load."""
        urgent = fiber.retiring or fiber.state not in (PENDING, FAILED)
        lane = 2 if urgent else 1
        if lane > fiber.queued:
            fiber.queued = lane
            (self._urgent if urgent else self._loads).append(fiber)
            self._wake.set()

    def touch_dependents(self, binding: Binding) -> None:
        """Has everybody evaluated who declares the key of a binding that came, went or counts."""
        self.forget_lookups()
        for fiber in self.table.dependents(binding.slot):
            self.touch(fiber)
        if SERVICE.name in self.tables:
            provider = binding.fiber if binding.live else None
            self.emit(SERVICE, ServiceChange(binding.key, binding.realm, provider))

    def resume(self, fiber: Fiber, value: object, error: Exception | None) -> None:
        """Goes on with a transition whose wait has ended."""
        self._urgent.append((fiber, value, error))
        self._wake.set()

    def settled(self, fiber: Fiber) -> bool:
        return fiber.transition is None and not fiber.queued

    @property
    def idle(self) -> bool:
        return not (self._urgent or self._in_flight or (self._loads and not self._batches))

    @property
    def batching(self) -> bool:
        return self._batches > 0

    async def settle(self) -> None:
        """Returns when no fiber has work left."""
        await anyio.lowlevel.checkpoint()
        while not self.idle:
            await self._idle.wait()

    def hold_loads(self) -> None:
        """Postpones starts of loads until `release_loads`; unloads go on."""
        self._batches += 1

    def release_loads(self) -> None:
        self._batches -= 1
        self._wake.set()

    # ---- the task

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        self._thread = threading.get_ident()
        with CancelScope(shield=True):
            async with anyio.create_task_group() as self._tasks:
                for variables, main, name in self._deferred:
                    variables.run(partial(self._tasks.start_soon, main, name=name))
                self._deferred.clear()
                task_status.started()
                with CancelScope() as self._loop_scope:
                    await self._loop()
                self._tasks.cancel_scope.cancel()
        self._tasks = None
        self.done.set()

    async def _loop(self) -> None:
        steps = 0
        while self.root.state is not DISPOSED:
            if self._urgent:
                self._step(self.choose(self._urgent))
            elif self._loads and not self._batches:
                self._step(self.choose(self._loads))
            else:
                self._idle.set()
                self._idle = anyio.Event()
                self._wake = anyio.Event()
                with anyio.move_on_after(_SLOW_LOAD if self._in_flight else None):
                    await self._wake.wait()
                self._complain_of_slow_loads()
                continue
            steps += 1
            if steps % _BURST == 0:
                await anyio.lowlevel.checkpoint()

    def request_exit(self) -> None:
        """Disposes root; what is not undone after `close_deadline` seconds is cancelled."""
        if not self.root.retiring:
            self.root.retiring = True
            self.touch(self.root)
            if self._loop_scope is not None:
                self._loop_scope.deadline = anyio.current_time() + self.close_deadline

    def fatal(self, error: BaseException) -> None:
        """Ends the container for something that no plugin may contain, such as `SystemExit`."""
        if self.fatal_error is None:
            self.fatal_error = _leaf(error)
            self.cancel_block()
            self.request_exit()

    def start(self, main: Main, name: str) -> None:
        """Runs a task of a fiber in the kernel's group, in a copy of the caller's variables."""
        if self._tasks is None:
            self._deferred.append((copy_context(), main, name))
        else:
            self._tasks.start_soon(main, name=name)

    # ---- one step

    def _step(self, item: Fiber | Resumption) -> None:
        if isinstance(item, tuple):
            self._drive(*item)
            return
        if item.queued:
            item.queued = 0
            self._evaluate(item)

    def _evaluate(self, fiber: Fiber) -> None:
        if fiber.transition is not None:
            self._divert(fiber)
            return
        state, target = fiber.state, target_of(fiber)
        if state is ACTIVE:
            if target != fiber.target:
                self._begin(fiber, unload(fiber))
        elif fiber.retiring:
            if state is not DISPOSED:
                self._dispose(fiber)
        elif target is not None:
            self._begin_load(fiber, target)
        elif state is FAILED and fiber.failed_generation != fiber.generation:
            fiber.set_state(PENDING)
        fiber.notify()

    def _begin_load(self, fiber: Fiber, target: Any) -> None:
        error = budget_error(fiber, anyio.current_time(), self.restart_budget)
        if error is None:
            self._begin(fiber, load(fiber, target))
            return
        fiber.error, fiber.failed_generation = error, fiber.generation
        fiber.set_state(FAILED)
        self.report(fiber, error, "restart budget")

    def _dispose(self, fiber: Fiber) -> None:
        if fiber.effects or fiber.bindings:
            self._begin(fiber, unload(fiber))
        else:
            fiber.set_state(DISPOSED)
            self._finish(fiber)

    def _begin(self, fiber: Fiber, steps: Steps) -> None:
        fiber.transition = steps
        self._in_flight[fiber] = time.monotonic() + _SLOW_LOAD
        self._drive(fiber, None, None)

    def _drive(self, fiber: Fiber, value: object, error: Exception | None) -> None:
        steps = fiber.transition
        if steps is None:
            return
        try:
            wait = steps.send(value) if error is None else steps.throw(error)
        except StopIteration:
            fiber.transition = None
            self._in_flight.pop(fiber, None)
            self._finish(fiber)
            return
        if isinstance(wait, Fiber):
            wait.parked.append(fiber)
            return
        if fiber.actor is None:
            fiber.actor = Actor(fiber, self.resume)
            self.start(fiber.actor.run, f"{fiber}")
        fiber.actor.submit(wait)
        self._divert(fiber)

    def _divert(self, fiber: Fiber) -> None:
        """A load that is no longer wanted may land for a while."""
        if fiber.state is not LOADING or fiber.actor is None:
            return
        if target_of(fiber) == fiber.target:
            fiber.actor.limit(None)
        elif not fiber.actor.limited:
            now = fiber.plugin is not None and fiber.plugin.cancel_load
            fiber.actor.limit(0 if now else self.grace)

    def _finish(self, fiber: Fiber) -> None:
        self.forget_lookups()
        state = fiber.state
        if state is not ACTIVE:
            if fiber.actor is not None:
                fiber.actor.finish()
                fiber.actor = None
            if state is DISPOSED:
                self._forget(fiber)
            else:
                self.touch(fiber)
            if state is FAILED:
                self.failed(fiber)
            if not fiber.check_waiters and fiber is not self.root:
                for error in flatten(fiber.teardown_errors):
                    self.report(fiber, error, "teardown")
        waiting, fiber.parked = fiber.parked, []
        for other in waiting:
            self.resume(other, None, None)
        fiber.notify()

    def failed(self, fiber: Fiber) -> None:
        """Gives the error of a FAILED fiber to those who wait for it, to a batch, or to the log."""
        if fiber.observers or fiber.error is None:
            return
        if self.failures is not None:
            self.failures.append(fiber)
        else:
            self.report(fiber, fiber.error, "loading")

    def adopt(self, fiber: Fiber) -> None:
        """Enters a new fiber into the indexes."""
        self.fibers[fiber] = None
        for key, _ in fiber.needs:
            self.table.depend((key, fiber.ctx.realm(key)), fiber)
        for key in fiber.provides:
            self.table.declare((key, fiber.ctx.realm(key)), fiber)

    def _forget(self, fiber: Fiber) -> None:
        self.fibers.pop(fiber, None)
        for key in (*(key for key, _ in fiber.needs), *fiber.provides):
            self.table.forget((key, fiber.ctx.realm(key)), fiber)
            for other in self.table.dependents((key, fiber.ctx.realm(key))):
                self.touch(other)
        for key in fiber.provides:
            for other in self.table.declared((key, fiber.ctx.realm(key))):
                self.touch(other)
        if fiber.handle is not None:
            fiber.handle.finish()

    # ---- what happened

    def emit(self, event: Event, *payload: Any) -> None:
        table = self.tables.get(event.name)
        if table is not None:
            emit(table.select(event.name, None), payload)

    def status(self, fiber: Fiber, old: FiberState) -> None:
        fiber.since = time.monotonic()
        if STATUS.name in self.tables:
            self.emit(STATUS, StatusChange(fiber, old, fiber.state))
        fiber.notify()

    def report(self, fiber: Fiber, error: BaseException, label: str) -> None:
        """Contains a failure: log and `internal/error`, once."""
        leaves = flatten([error]) if isinstance(error, Exception) else [error]
        for leaf in leaves:
            log.error(
                "%s of %s failed: %s: %s",
                *(label, fiber, type(leaf).__name__, leaf),
                exc_info=leaf,
                extra={"plugin": fiber.name, "fiber": fiber.uid},
            )
        table = self.tables.get(ERROR.name)
        for listener in () if table is None else table.select(ERROR.name, None):
            try:
                listener.call_taken(ContainedError(fiber, label, error))
            except Exception as failure:  # must not report itself for ever
                log.error("a listener of internal/error failed: %r", failure, exc_info=failure)

    def silence(self, fiber: Fiber) -> None:
        silence(fiber.effects.values())

    def forget_lookups(self) -> None:
        """Empties the caches of contexts: a binding or a committed view has changed."""
        if self.caches:
            for cache in self.caches:
                cache.clear()
            self.caches.clear()

    def next_uid(self) -> int:
        self._uid += 1
        return self._uid

    def check_thread(self, action: str) -> None:
        if threading.get_ident() != self._thread:
            raise WrongThreadError(action)

    def _complain_of_slow_loads(self) -> None:
        now = time.monotonic()
        for fiber, due in self._in_flight.items():
            if fiber.state is LOADING and now >= due:
                self._in_flight[fiber] = now + _SLOW_AGAIN
                log.warning("%s is still loading after %.0f s", fiber, now - fiber.since)


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        worse = [one for one in error.exceptions if not isinstance(one, Exception)]
        error = (worse or list(error.exceptions))[0]
    return error
