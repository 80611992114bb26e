"""Which agent caused the running code: attribution only, it grants nothing."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import anyio

from terret_context import Fiber

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


_blocks: Final[ContextVar[Iterable[object]]] = ContextVar("terret_initiator_blocks", default=())


class InitiatorBlocks:
    """The open blocks of one service, which awaits them when it closes."""

    def __init__(self) -> None:
        self._open: set[object] = set()
        self._closing = False
        self._changed = anyio.Event()

    @contextmanager
    def block(self, agent: Agent | None) -> Iterator[None]:
        """Sets the initiator for a block that may span awaits."""
        if self._closing:
            raise RuntimeError("the agents service is closing: no new initiator block")
        block = object()
        initiator, blocks = _initiator.set(agent), _blocks.set((*_blocks.get(), block))
        self._open.add(block)
        try:
            yield
        finally:
            self._open.discard(block)
            _blocks.reset(blocks)
            _initiator.reset(initiator)
            self._changed.set()

    async def drain(self, fiber: Fiber) -> None:
        """Refuses new blocks and returns when the open ones have ended.

        Those from which the disposal of the service's fiber was started cannot end before it has,
        and are not waited for.
        """
        self._closing = True
        around: set[object] = set()
        for each in (fiber, *fiber.ancestors()):
            if each.retired_by is not None and _blocks in each.retired_by:
                around.update(each.retired_by[_blocks])
        while self._open - around:
            self._changed = anyio.Event()
            await self._changed.wait()
