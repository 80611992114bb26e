"""A model server on a real socket that does what a test wants."""

import json
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio
import anyio.lowlevel
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from ._wire_answers import WireAnswer, status_answer

ServerAnswer: TypeAlias = WireAnswer | Callable[["WireRequest"], WireAnswer]

_GONE = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)


class ServerExhaustedError(AssertionError):
    """A model server was asked more often than its script has answers."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(
            f"the script of the model server has no answer to request {number}; add one, give it "
            "`then=...`, or find out why there is another request"
        )


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What a client sent: headers in lower case, the body as JSON and as bytes."""

    path: str
    headers: dict[str, str]
    json: Any
    body: bytes


class FaultyModelServer:
    """Answers the n-th request with the n-th answer of its script. An async manager.

    It speaks HTTP/1.1 on a port of its own of the loopback interface and knows no protocol of
    models: answers are bytes. Only a POST of JSON takes an answer from the script; every other
    request is refused and noted in `refused`. `then` goes on where the script ends. A request that
    has no answer gets the status 500, and leaving raises ServerExhaustedError. `models` are the
    names that `GET .../models` lists, or the answer to it.

    Attributes:
        requests: The requests that took an answer, in order.
        refused: Why other requests were refused.
        connections: How many connections clients have opened.
    """

    def __init__(
        self,
        *answers: ServerAnswer,
        then: Iterator[ServerAnswer] | None = None,
        models: Sequence[str] | WireAnswer = (),
        host: str = "127.0.0.1",
    ) -> None:
        self.requests: list[WireRequest] = []
        self.refused: list[str] = []
        self.connections = 0
        self._answers = iter(answers)
        self._then: Iterator[ServerAnswer] = iter(()) if then is None else then
        self._models = models if isinstance(models, WireAnswer) else _listed(models)
        self._address = host
        self._port = 0
        self._exhausted: ServerExhaustedError | None = None
        self._left = 0
        self._leaving = anyio.Event()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None

    @property
    def host(self) -> str:
        """Address and port, as they stand in a URL."""
        name = f"[{self._address}]" if ":" in self._address else self._address
        return f"{name}:{self._port}"

    @property
    def url(self) -> str:
        """The base address of the server."""
        return f"http://{self.host}/v1"

    async def __aenter__(self) -> Self:
        listener = await self._stack.enter_async_context(
            await anyio.create_tcp_listener(local_host=self._address)
        )
        self._port = listener.extra(SocketAttribute.local_port)
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(listener.serve, self._serve)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        await self._stack.aclose()  # without the error, which a task group would wrap
        if self._exhausted is not None and error is None:
            raise self._exhausted

    async def left_by(self, clients: int = 1) -> None:
        """Waits until that many connections were closed by their clients."""
        while self._left < clients:
            await self._leaving.wait()

    async def _serve(self, stream: SocketStream) -> None:
        self.connections += 1
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while await self._serve_one(stream, reader):
                    pass
            except _GONE:
                self._left += 1
                self._leaving.set()
                self._leaving = anyio.Event()

    async def _serve_one(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        try:
            method, path, headers = await _read_head(reader)
            size = int(headers.get("content-length", 0))
        except (ValueError, anyio.DelimiterNotFound):
            self.refused.append("no HTTP request")
            await self._send(stream, status_answer(400))
            return False
        body = await reader.receive_exactly(size)
        answer = self._answer(method, path, headers, body)
        return await self._send(stream, answer)

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> WireAnswer:
        if method == "GET" and path.endswith("/models"):
            return self._models
        try:
            parsed = json.loads(body)
        except ValueError:
            parsed = None
        if method != "POST" or not isinstance(parsed, dict):
            self.refused.append(f"{method} {path}: not a JSON object in a POST")
            return status_answer(400, {"error": {"message": self.refused[-1]}})
        request = WireRequest(path, headers, parsed, body)
        self.requests.append(request)
        answer = next(self._answers, None) or next(self._then, None)
        if answer is None:
            self._exhausted = self._exhausted or ServerExhaustedError(len(self.requests))
            return status_answer(500, {"error": {"message": str(self._exhausted)}})
        return answer(request) if callable(answer) else answer

    async def _send(self, stream: SocketStream, answer: WireAnswer) -> bool:
        if answer.headers_first:
            await stream.send(_head(answer))
        for piece in answer.pieces():
            await stream.send(_framed(piece))
        if answer.ending == "reset":
            raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
            await anyio.lowlevel.checkpoint()
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif answer.ending == "hold":
            await self._hold(stream, answer)
        elif answer.ending == "end":
            await stream.send(b"0\r\n\r\n")
            return True
        await stream.aclose()
        return False

    async def _hold(self, stream: SocketStream, answer: WireAnswer) -> None:
        while answer.ping:
            await stream.send(_framed(answer.ping))
            await anyio.sleep(answer.ping_seconds)
        await stream.receive()


async def _read_head(reader: BufferedByteReceiveStream) -> tuple[str, str, dict[str, str]]:
    """Method, path and headers of the next request; ValueError if it is none."""
    head = (await reader.receive_until(b"\r\n\r\n", 65536)).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    parts = (line.partition(":") for line in lines)
    return method, path, {name.lower(): value.strip() for name, _, value in parts}


def _listed(models: Sequence[str]) -> WireAnswer:
    return status_answer(200, {"data": [{"id": name} for name in models]})


def _head(answer: WireAnswer) -> bytes:
    headers = {"transfer-encoding": "chunked"} | dict(answer.headers)
    lines = [f"HTTP/1.1 {answer.status} X", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _framed(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)
