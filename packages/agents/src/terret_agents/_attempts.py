"""Work that fibers may abort by unloading."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from terret_context import Context, Effect

from ._errors import AgentDisposedError

T = TypeVar("T")


async def while_admitted(
    owners: tuple[Context, ...], attempt: Callable[[], Awaitable[T]], agent_id: str
) -> T:
    """Runs `attempt`; the unload of an owner cancels it and awaits its end.

    Raises `AgentDisposedError` if that happened, `InactiveFiberError` if one had stopped before.
    """
    scope, ended = anyio.CancelScope(), anyio.Event()

    async def abort() -> None:
        scope.cancel()
        await ended.wait()

    label = f"creation of agent {agent_id}"
    fibers = {ctx.fiber: ctx for ctx in owners}
    holds: list[Effect] = []
    try:
        for ctx in fibers.values():
            holds.append(ctx.effect(lambda: abort, label=label))
        with scope:
            return await attempt()
    finally:
        ended.set()
        with anyio.CancelScope(shield=True):
            for hold in holds:
                await hold.aclose()
    raise AgentDisposedError(agent_id)
