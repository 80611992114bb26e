from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from terret_context import Context
from terret_llm._service import Llm
from terret_llm.settings import ServerSettings

from ._adapter import HttpAdapter
from ._clients import ClientPool
from ._wire import HttpWire

S = TypeVar("S", bound=ServerSettings)


@asynccontextmanager
async def serving(
    ctx: Context, settings: S, wire: Callable[[S], HttpWire[S, Any]]
) -> AsyncIterator[HttpAdapter]:
    """Serve the provider of `settings`: the whole body of a plugin for a model server.

    Changed settings take effect at the next request, without a restart, unless they need other
    connections.
    """
    async with ClientPool(settings) as clients:
        adapter = HttpAdapter(wire(settings), clients, ctx)
        registration = ctx[Llm].register_adapter(settings.provider, adapter)

        def update(old: S, new: S) -> bool:
            if not clients.serves(new):
                return False
            adapter.apply(wire(new))
            if (old.provider, old.retry) != (new.provider, new.retry):
                registration.replace(new.provider)
            return True

        ctx.on_update(update)
        yield adapter
