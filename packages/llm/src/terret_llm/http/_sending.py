import time
from collections.abc import Mapping

import httpx2

from terret_llm.settings import ServerSettings

from ._failures import broken

_AT_ONCE_SECONDS = 1.0
_CLOSED = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)


def new_request(
    client: httpx2.AsyncClient,
    settings: ServerSettings,
    path: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
) -> httpx2.Request:
    """A request whose connection has a time limit; reads have none of their own."""
    return client.build_request(
        "GET" if body is None else "POST",
        f"{settings.base_url}/{path}",
        content=body,
        headers=dict(headers),
        timeout=httpx2.Timeout(None, connect=settings.connect_timeout),
    )


async def sent(
    client: httpx2.AsyncClient, request: httpx2.Request, settings: ServerSettings
) -> httpx2.Response:
    """The response to a request, once its headers are there. Raises LlmError.

    A server may close a resting connection just when it is used again. That shows at once, before
    a byte of an answer, and the request goes out on another connection.
    """
    late = time.monotonic() + _AT_ONCE_SECONDS
    while True:
        request.extensions["trace"] = is_new = _NewConnection()
        try:
            return await client.send(request, stream=True)
        except httpx2.HTTPError as error:
            was_closed = isinstance(error, _CLOSED) and time.monotonic() < late
            if is_new or not was_closed:
                raise broken(error, settings) from error


class _NewConnection:
    """Whether a request opened a connection, as the client's trace of it tells."""

    def __init__(self) -> None:
        self._opened = False

    async def __call__(self, event: str, info: object) -> None:
        self._opened = self._opened or event.endswith("connect_tcp.started")

    def __bool__(self) -> bool:
        return self._opened
