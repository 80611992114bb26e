"""Ctrl-C and SIGTERM: the first asks the work to stop, the second ends the process."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus


class Interrupts:
    """What an interrupt does at the moment: `stop` is called for the first one.

    `code` is the exit code of the first signal (130 or 143), `None` before it.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self.stop = stop
        self.code: int | None = None
        self.forgiving = False
        """Whether every signal counts as a first one, as at the prompt of a chat."""

    def hit(self, number: int) -> None:
        if self.code is not None and not self.forgiving:
            sys.stdout.flush()
            os._exit(128 + number)
        self.code = 128 + number
        self.stop()

    async def _watch(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as numbers:
            task_status.started()
            async for number in numbers:
                self.hit(number)


@asynccontextmanager
async def interrupts(stop: Callable[[], object]) -> AsyncIterator[Interrupts]:
    """Receives signals while the block runs; where the platform cannot, Ctrl-C just raises."""
    received = Interrupts(stop)
    if sys.platform == "win32":
        yield received
        return
    try:
        async with anyio.create_task_group() as group:
            await group.start(received._watch)
            yield received
            group.cancel_scope.cancel()
    except BaseExceptionGroup as error:
        if len(error.exceptions) > 1:
            raise
        raise error.exceptions[0] from None  # the block's own exception, as it was raised
