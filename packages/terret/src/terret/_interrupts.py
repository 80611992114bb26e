"""Ctrl-C and SIGTERM: the first asks the work to stop, the second ends the process."""

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from types import FrameType

import anyio


class Interrupts:
    """What an interrupt does at the moment: `stop` is called for the first one.

    `code` is the exit code of the first signal (130 or 143), `None` before it.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self.stop = stop
        self.code: int | None = None
        self.forgiving = False
        """Whether every Ctrl-C counts as a first one, as at the prompt of a chat."""
        self._is_on_its_way = False
        self._sender, self._receiver = socket.socketpair()

    def hit(self, number: int, frame: FrameType | None = None) -> None:
        """Handles a signal, between any two steps of the program, also one that never waits."""
        is_first = self.code is None or (self.forgiving and self.code == 128 + signal.SIGINT)
        if self._is_on_its_way or not is_first:
            os._exit(128 + number)
        self.code = 128 + number
        self._is_on_its_way = True
        self._sender.send(b"!")

    async def watch(self) -> None:
        """Calls `stop` from the event loop, as soon as that gets to it."""
        while True:
            await anyio.wait_readable(self._receiver)
            self._receiver.recv(1)
            self._is_on_its_way = False
            self.stop()

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


@asynccontextmanager
async def interrupts(stop: Callable[[], object]) -> AsyncIterator[Interrupts]:
    """Receives signals while the block runs."""
    received = Interrupts(stop)
    with ExitStack() as undo:
        undo.callback(received.close)
        for number in (signal.SIGINT, signal.SIGTERM):
            undo.callback(signal.signal, number, signal.signal(number, received.hit))
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(received.watch)
                yield received
                group.cancel_scope.cancel()
        except BaseExceptionGroup as error:
            if len(error.exceptions) > 1:
                raise
            raise error.exceptions[0] from None  # the block's own exception, as it was raised
