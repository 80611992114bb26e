"""The kernel: one task that decides what loads and unloads, and keeps all others."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint

from ._actor import Actor
from ._effects import Steps
from ._fiber import Fiber
from ._internal import log
from ._register import Register
from ._states import ACTIVE, DISPOSED, FAILED, LOADING, PENDING, UNLOADING
from ._targets import target_of
from ._transitions import count_load, load, unload
from .diagnostics import find_cycles, text_of, waits_of

_BURST: Final = 64
"""Transitions between two visits of the event loop."""
_SLOW_LOAD: Final = 5.0
_SLOW_AGAIN: Final = 30.0

Resumption: TypeAlias = tuple[Fiber, object, Exception | None]
Lane: TypeAlias = deque[Any]


class Kernel(Register):
    """Run queue and exit of one container."""

    def __init__(
        self, *, grace: float, close_deadline: float, restart_budget: tuple[int, float]
    ) -> None:
        super().__init__()
        self.grace = grace
        self.close_deadline = close_deadline
        self.restart_budget = restart_budget
        self.closed = False
        self.choose: Callable[[Lane], Any] = deque.popleft  # tests put other schedulers here
        self._urgent: Lane = deque()
        self._loads: Lane = deque()
        self._batches = 0
        self._in_flight: dict[Fiber, float] = {}
        self._watches = False
        self._wake: anyio.Event | None = None
        self._idle: anyio.Event | None = None
        self._cycles: set[frozenset[int]] = set()
        self._scope: CancelScope | None = None
        self._deadline = math.inf

    def touch(self, fiber: Fiber) -> None:
        """Has a fiber evaluated; what may unload goes before what may load."""
        state = fiber.state
        urgent = fiber.retiring or state is ACTIVE or state is LOADING
        lane = 2 if urgent else 1
        if lane > fiber.queued:
            fiber.queued = lane
            (self._urgent if urgent else self._loads).append(fiber)
            self.wake()

    def resume(self, fiber: Fiber, value: object, error: Exception | None) -> None:
        """Goes on with a transition whose wait has ended."""
        self._urgent.append((fiber, value, error))
        self.wake()

    def wake(self) -> None:
        if self._wake is not None:
            self._wake.set()

    def settled(self, fiber: Fiber) -> bool:
        return fiber.transition is None and not fiber.queued

    @property
    def idle(self) -> bool:
        return not (self._urgent or self._in_flight or (self._loads and not self._batches))

    async def settle(self) -> None:
        """Returns when no fiber has work left."""
        await checkpoint()
        while not self.idle:
            if self._idle is None:
                self._idle = self.event()
            await self._idle.wait()

    @property
    def batching(self) -> bool:
        return self._batches > 0

    def hold_loads(self) -> None:
        """Postpones starts of loads until `release_loads`; unloads go on."""
        self._batches += 1

    def release_loads(self) -> None:
        self._batches -= 1
        self.wake()

    async def run(self) -> None:
        self._start_clock()
        try:
            with CancelScope(shield=True):
                async with anyio.create_task_group() as group:
                    self.open_group(group)
                    with CancelScope(deadline=self._deadline) as self._scope:
                        await self._loop()
                    group.cancel_scope.cancel()
        finally:
            self._close()

    def _start_clock(self) -> None:
        self.now = anyio.current_time()
        for fiber in self.fibers:
            fiber.since = self.now

    async def _loop(self) -> None:
        steps = 0
        while self.root.state is not DISPOSED:
            if self._urgent:
                self._step(self.choose(self._urgent))
            elif self._loads and not self._batches:
                self._step(self.choose(self._loads))
            else:
                await self._sleep()
                continue
            steps += 1
            if steps % _BURST == 0:
                await checkpoint()
                self.now = anyio.current_time()

    async def _sleep(self) -> None:
        if self.edges_are_new:
            self._report_cycles()
        if self._idle is not None:
            self._idle.set()
            self._idle = None
        self._wake = self.event()
        await self._wake.wait()
        self._wake = None
        self.now = anyio.current_time()

    def _report_cycles(self) -> None:
        """Logs circles of requirements that were not there before."""
        self.edges_are_new = False
        for cycle in find_cycles(self.fibers):
            members = frozenset(fiber.uid for fiber in cycle)
            if members not in self._cycles:
                self._cycles.add(members)
                log.error(
                    "plugins that wait for each other: %s; make one of the keys optional",
                    text_of(cycle),
                )

    def request_exit(self) -> None:
        """Disposes root; what is not undone after `close_deadline` seconds is cancelled."""
        if not self.root.retiring:
            self.root.retiring = True
            self.touch(self.root)
            self._deadline = anyio.current_time() + self.close_deadline
            if self._scope is not None:
                self._scope.deadline = self._deadline

    def _close(self) -> None:
        """Tells everybody who still waits that the container has ended."""
        self.close_group()
        self.closed = True
        for fiber in self.fibers:
            fiber.state, fiber.transition, fiber.queued = DISPOSED, None, 0
            fiber.notify()
            fiber.rest()
        self._urgent.clear()
        self._loads.clear()
        self._in_flight.clear()
        if self._idle is not None:
            self._idle.set()

    def _step(self, item: Fiber | Resumption) -> None:
        if isinstance(item, tuple):
            self._drive(*item)
        elif item.queued:
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
        elif state is UNLOADING or (state is FAILED and not fiber.has_failed):
            fiber.set_state(PENDING)
        elif state is FAILED:
            self.announce(fiber)
        if fiber.transition is None:
            fiber.rest()

    def _begin_load(self, fiber: Fiber, target: Any) -> None:
        error = count_load(fiber, self.now, self.restart_budget)
        if error is None:
            self._begin(fiber, load(fiber, target))
            return
        fiber.take_error(error, "restart budget")
        fiber.set_state(FAILED)
        self.announce(fiber)

    def _dispose(self, fiber: Fiber) -> None:
        if fiber.effects or fiber.bindings:
            self._begin(fiber, unload(fiber))
        else:
            fiber.set_state(DISPOSED)
            self._finish(fiber)

    def _begin(self, fiber: Fiber, steps: Steps) -> None:
        fiber.transition = steps
        self._in_flight[fiber] = self.now + _SLOW_LOAD
        self._drive(fiber, None, None)

    def _drive(self, fiber: Fiber, value: object, error: Exception | None) -> None:
        steps = fiber.transition
        if steps is None:
            return
        try:
            wait = steps.send(value) if error is None else steps.throw(error)
        except StopIteration:
            fiber.transition = None
            del self._in_flight[fiber]
            self._finish(fiber)
            return
        if not self._watches:
            self._watches = True
            self.start(self._watch, "slow loads")
        if isinstance(wait, Fiber):
            wait.parked += (fiber,)
            return
        if fiber.actor is None:
            fiber.actor = Actor(fiber, self._proceed)
            self.start(fiber.actor.run, str(fiber))
            fiber.actor.submit(wait)
            return
        fiber.actor.submit(wait)
        self._divert(fiber)

    def _proceed(self, fiber: Fiber, value: object, error: Exception | None) -> None:
        """Goes on with a transition in the task of its episode, when a call there has ended."""
        self.now = anyio.current_time()
        self._drive(fiber, value, error)
        self.wake()

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
        """After a transition, or a change of state that needed none."""
        state = fiber.state
        if state is not ACTIVE:
            if fiber.actor is not None:
                fiber.actor.finish()
                fiber.actor = None
            self.announce(fiber)
            self.report_failures(fiber)
            if state is DISPOSED:
                self.forget(fiber)
            else:
                self.touch(fiber)
        waiting, fiber.parked = fiber.parked, ()
        for other in waiting:
            self.resume(other, None, None)
        fiber.rest()

    async def _watch(self) -> None:
        """Complains of loads that take long, as long as anything is in flight."""
        while self._in_flight:
            await anyio.sleep_until(min(self._in_flight.values()))
            now = anyio.current_time()
            for fiber, due in self._in_flight.items():
                if due <= now:
                    self._in_flight[fiber] = now + _SLOW_AGAIN
                    if fiber.state is LOADING:
                        seconds, why = now - fiber.since, waits_of(fiber)
                        log.warning("%s is still loading after %.0f s: %s", fiber, seconds, why)
        self._watches = False
