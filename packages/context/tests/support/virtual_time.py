"""Event loops whose time is virtual: a sleep returns as soon as nothing else can run."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from trio.testing import MockClock


class JumpingSelector(selectors.SelectSelector):
    """Does not wait for a timer but makes it later."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on a clock that jumps from timer to timer."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def virtual_backend(name: str) -> tuple[str, dict[str, Any]]:
    """Returns backend and options for `anyio.run` and for the fixture `anyio_backend`."""
    if name == "asyncio":
        return "asyncio", {"loop_factory": VirtualTimeLoop}
    return "trio", {"clock": MockClock(autojump_threshold=0)}


def on_loop(main: Callable[[], Awaitable[object]]) -> None:
    """Runs a coroutine function on virtual time, for tests that are no coroutines themselves."""
    name, options = virtual_backend("asyncio")
    anyio.run(main, backend=name, backend_options=options)
