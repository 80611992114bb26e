"""Which agent caused the running code: attribution only, it grants nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import anyio

from ._agent import Agent
from ._errors import NoInitiatorError

_initiator: Final[ContextVar[Agent | None]] = ContextVar("terret_initiator", default=None)


def current_initiator() -> Agent | None:
    """Returns the agent that caused the running code, if one did."""
    return _initiator.get()


def require_initiator() -> Agent:
    """Returns the agent that caused the running code. Raises `NoInitiatorError`."""
    agent = _initiator.get()
    if agent is None:
        raise NoInitiatorError
    return agent


def clear_initiator() -> None:
    """Makes the running context one that no agent caused."""
    _initiator.set(None)


class InitiatorBlocks:
    """The open blocks of one service, which awaits them when it closes."""

    def __init__(self) -> None:
        self._open = 0
        self._closing = False
        self._drained: anyio.Event | None = None

    @contextmanager
    def block(self, agent: Agent | None) -> Iterator[None]:
        """Sets the initiator for a block that may span awaits."""
        if self._closing:
            raise RuntimeError("the agents service is closing: no new initiator block")
        token = _initiator.set(agent)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            _initiator.reset(token)
            if self._drained is not None and not self._open:
                self._drained.set()

    async def drain(self) -> None:
        """Refuses new blocks and returns when the open ones have ended."""
        self._closing = True
        if self._open:
            self._drained = anyio.Event()
            await self._drained.wait()
