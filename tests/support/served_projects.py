"""A project that is served in this process, without sockets, and what may happen to its streams."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from asgi_streams import asgi_streams
from terret_client import TerretClient
from terret_context import Container
from terret_llm import Llm
from terret_loader import open_harness
from terret_plugin_http import create_app
from terret_testing import ScriptedModel

HARNESS = """
extends: [service]
plugins:
  agent-folders: {defaults: {model: {provider: scripted, model: m}}}
"""
AGENT = {"agents/shop/agent.yml": "systemPrompt: Sell things.\n"}
HOST = "http://127.0.0.1:8787"


def write_project(root: Path, files: Mapping[str, str] | None = None, more: str = "") -> Path:
    """Writes a project with the agent `shop`; `more` are lines of harness.yml, below `plugins`."""
    for name, text in {"harness.yml": HARNESS + more, **AGENT, **(files or {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


class Served:
    """A service, and clients for it."""

    def __init__(self, ctx: Container, transport: httpx2.AsyncBaseTransport) -> None:
        self.ctx = ctx
        self.transport = transport
        self.paths: list[str] = []
        """What was asked for."""

    def client(self, cuts: Sequence[int] = ()) -> TerretClient:
        """A client, whose streams are cut after so many bytes, one after the other."""
        return TerretClient(HOST, transport=_Cutting(self, cuts), attempts=3)


@asynccontextmanager
async def served_project(root: Path, model: ScriptedModel | None = None) -> AsyncIterator[Served]:
    """Serves the project; its agents are answered by the model, or by one that it has itself."""
    async with open_harness(root / "harness.yml", env={}) as ctx:
        if model is not None:
            ctx[Llm].register_adapter("scripted", model)
        async with asgi_streams(create_app(ctx)) as transport:
            yield Served(ctx, transport)


class _Cutting(httpx2.AsyncBaseTransport):
    """Breaks streams off. Clients are asked to come back at once, so that tests do not wait."""

    def __init__(self, served: Served, cuts: Sequence[int]) -> None:
        self._served = served
        self._cuts = list(cuts)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._served.paths.append(request.url.path)
        response = await self._served.transport.handle_async_request(request)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            cut = self._cuts.pop(0) if self._cuts else None
            response.stream = _CutStream(response.stream, cut)
        return response


class _CutStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, cut: int | None) -> None:
        self._inner = inner
        self._pieces = aiter(inner)
        self._left = cut

    def __aiter__(self) -> "_CutStream":
        return self

    async def __anext__(self) -> bytes:
        if self._left == 0:
            raise httpx2.ReadError("cut")
        piece = bytes(await anext(self._pieces)).replace(b"retry: 2000", b"retry: 0")
        if self._left is not None:
            piece = piece[: self._left]
            self._left -= len(piece)
        return piece

    async def aclose(self) -> None:
        await self._inner.aclose()
