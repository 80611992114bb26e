"""The plugin in a container, against a server on a real loopback socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest

from terret_context import Container
from terret_llm import Llm
from terret_plugin_llm_openai import llm_openai
from terret_testing import FaultyModelServer

Mounted: TypeAlias = Callable[..., AbstractAsyncContextManager[Llm]]


@asynccontextmanager
async def _mounted(server: FaultyModelServer | None = None, **config: Any) -> AsyncIterator[Llm]:
    where = {} if server is None else {"base_url": server.url}
    async with Container() as root:
        await root.plugin(Llm).ready()
        await root.plugin(llm_openai, where | config).ready()
        yield root[Llm]


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> Mounted:
    """`async with mounted(server, **settings) as llm`; no variable of the environment is set."""
    for name in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return _mounted
