"""An ASGI application spoken to without sockets, with bodies that stream and clients that leave."""

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


@asynccontextmanager
async def asgi_streams(app: App) -> AsyncIterator[httpx2.AsyncBaseTransport]:
    """Gives a transport for clients of the application.

    Each request runs in a task of its own. A response that is closed early is a client that left:
    the application hears `http.disconnect`. A send returns when the piece was taken, so a reader
    that stops reading holds up the application as a full socket does.
    """
    async with anyio.create_task_group() as tasks:
        yield _Transport(app, tasks)
        tasks.cancel_scope.cancel()


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, app: App, tasks: TaskGroup) -> None:
        self._app = app
        self._tasks = tasks

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = _Exchange(await request.aread())
        self._tasks.start_soon(partial(exchange.run, self._app, _scope(request)))
        await exchange.started.wait()
        assert exchange.start is not None, "the application ended without a response"
        return httpx2.Response(
            exchange.start["status"], headers=exchange.start["headers"], stream=exchange
        )


class _Exchange(httpx2.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self.started = anyio.Event()
        self.start: Message | None = None
        self._request: list[Message] = [{"type": "http.request", "body": body}]
        self._left = anyio.Event()
        self._send, self._receive = anyio.create_memory_object_stream[bytes](0)

    async def run(self, app: App, scope: Message) -> None:
        with self._send:
            try:
                await app(scope, self._next, self._answer)
            finally:
                self.started.set()

    async def _next(self) -> Message:
        if self._request:
            return self._request.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.start = message
            self.started.set()
            return
        if message.get("body"):
            with suppress(anyio.BrokenResourceError):  # the client has left
                await self._send.send(message["body"])
        if not message.get("more_body"):
            self._send.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._receive

    async def aclose(self) -> None:
        self._left.set()
        self._receive.close()


def _scope(request: httpx2.Request) -> Message:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.split(b"?")[0],
        "query_string": url.query,
        "server": (url.host, url.port),
        "client": ("127.0.0.1", 50000),
        "root_path": "",
    }
