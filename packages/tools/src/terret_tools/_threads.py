"""Plain functions: each in a worker thread that a cancellation does not wait for too long."""

from collections.abc import Callable
from threading import Lock

import anyio
from anyio import CancelScope, CapacityLimiter, create_task_group, get_cancelled_exc_class
from anyio.to_thread import run_sync

from ._calls import ToolRun


class Job:
    """One call of a plain function."""

    def __init__(self, fn: Callable[[], object], run: ToolRun) -> None:
        self.value: object = None
        self.error: Exception | SystemExit | None = None
        self.abandoned = False
        self.done = anyio.Event()
        self._fn = fn
        self._run = run
        self._lock = Lock()
        self._started = False

    def work(self) -> None:
        """Runs in the thread, unless the call was cancelled before it got one."""
        with self._lock:
            if self._run.cancelled:
                return
            self._started = True
        try:
            self.value = self._fn()
        except (Exception, SystemExit) as error:
            self.error = error

    def cancel(self) -> bool:
        """Tells the function to end; returns whether it has begun at all."""
        with self._lock:
            self._run.mark_cancelled()
            return self._started

    def end(self, *, in_time: bool) -> None:
        self.abandoned = self._started and not in_time
        self.done.set()


class Threads:
    """The worker threads of the tools, with a limit of their own."""

    def __init__(self, limit: int, grace: float) -> None:
        self.limiter = CapacityLimiter(limit)
        self.grace = grace

    async def run(self, job: Job) -> None:
        """Runs a job; its end is written on it.

        After a cancellation the thread gets `grace` seconds. Then it is left behind, and what it
        returns later is dropped.
        """
        shield = CancelScope(shield=True)
        async with create_task_group() as group:
            group.start_soon(self._run, job, shield)
            try:
                await job.done.wait()
            except get_cancelled_exc_class():
                begun = job.cancel()
                shield.deadline = anyio.current_time() + (self.grace if begun else 0)
                raise

    async def _run(self, job: Job, shield: CancelScope) -> None:
        with shield:
            await run_sync(job.work, abandon_on_cancel=True, limiter=self.limiter)
        job.end(in_time=not shield.cancelled_caught)
