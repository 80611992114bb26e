"""A plugin for a model server in a container of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from terret_context import Container
from terret_llm import Llm
from terret_testing import FaultyModelServer


@asynccontextmanager
async def mounted_model(
    plugin: object, server: FaultyModelServer | None = None, **config: object
) -> AsyncIterator[Llm]:
    """Mounts the plugin for a server, if there is one, and yields the service."""
    where = {} if server is None else {"base_url": server.url}
    async with Container() as root:
        await root.plugin(Llm).ready()
        await root.plugin(plugin, where | config).ready()
        yield root[Llm]
