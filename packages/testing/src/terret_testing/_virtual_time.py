"""Event loops in which waiting takes no time."""

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any, Final

from trio.testing import MockClock

IDLE: Final = 0.005
"""Seconds in which nothing happens before time jumps; threads and files may need them."""


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that lets time jump instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.jumped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits for files as ever; a wait for time alone is skipped."""
        if timeout is None or timeout <= IDLE:
            return super().select(timeout)
        ready = super().select(IDLE)
        if not ready:
            self.jumped += timeout - IDLE
        return ready


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.jumped


def backends() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Returns the backends of anyio, by name, with a time that jumps when every task waits."""
    return {
        "asyncio": ("asyncio", {"loop_factory": _JumpingLoop}),
        "trio": ("trio", {"clock": MockClock(autojump_threshold=IDLE)}),
    }
