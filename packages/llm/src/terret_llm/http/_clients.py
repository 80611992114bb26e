import ssl
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Self

import httpx2

from terret_llm.settings import ServerSettings

from ._failures import unusable_proxy

_STREAMS_PER_CLIENT = 16
"""A pool looks at all of its connections for each request, so one pool must not have many."""


class _Shard:
    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.streams = 0


class ClientPool:
    """The HTTP clients of one mounted plugin: as many as its streams need. An async manager.

    Time limits, addresses and headers are those of each request.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.route = _route(settings)
        self._shards: list[_Shard] = []
        self._stack = AsyncExitStack()
        self._tls: ssl.SSLContext | bool | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def serves(self, settings: ServerSettings) -> bool:
        """Whether requests of these settings can use the same connections."""
        return _route(settings) == self.route

    @contextmanager
    def lease(self) -> Iterator[httpx2.AsyncClient]:
        """A client for one stream, with few others on it. Raises LlmError for a useless proxy."""
        shard = next((one for one in self._shards if one.streams < _STREAMS_PER_CLIENT), None)
        if shard is None:
            shard = _Shard(self._open())
            self._shards.append(shard)
        shard.streams += 1
        try:
            yield shard.client
        finally:
            shard.streams -= 1

    def _open(self) -> httpx2.AsyncClient:
        scheme, direct, proxy = self.route
        if self._tls is None:
            # Loading certificates takes a fifth of a second; all clients share them.
            self._tls = httpx2.create_ssl_context() if scheme == "https" or proxy else False
        try:
            client = httpx2.AsyncClient(
                verify=self._tls,
                trust_env=not direct,
                proxy=proxy,
                timeout=None,
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            )
        except (ImportError, ValueError, httpx2.InvalidURL) as error:
            raise unusable_proxy(error) from None
        self._stack.push_async_callback(client.aclose)
        return client


def _route(settings: ServerSettings) -> tuple[str, bool, str | None]:
    scheme, proxy = settings.base_url.partition(":")[0], settings.proxy
    return scheme, settings.is_loopback, None if proxy is None else proxy.get_secret_value()
