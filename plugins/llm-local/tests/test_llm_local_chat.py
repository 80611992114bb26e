"""The connection to a model server, against a server that is a few lines of sockets."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream

from terret_llm import (
    BlockAssembler,
    Finish,
    FinishChunk,
    GenerateOptions,
    LlmError,
    TextDelta,
    Usage,
    create_user_message,
)
from terret_plugin_llm_local._chat import LocalChat

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
HELLO = GenerateOptions(provider="local", model="m", messages=[create_user_message("Hello")])
DONE = b"data: [DONE]\n\n"


def event(**payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def delta(text: str) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text}}])


STOP = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
USAGE = event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 2})


class Server:
    """Answers each connection with `pieces`; then closes it, or waits until the client does."""

    def __init__(self, *pieces: bytes, closes: bool = True) -> None:
        self.pieces = pieces
        self.closes = closes
        self.requests: list[bytes] = []
        self.left = anyio.Event()

    async def answer(self, stream: SocketStream) -> None:
        async with stream:
            head, _, body = (await stream.receive()).partition(b"\r\n\r\n")
            while b"}" not in body[-1:]:
                body += await stream.receive()
            self.requests.append(head + b"\n" + body)
            for piece in self.pieces:
                await stream.send(piece)
            if not self.closes:
                await self._until_left(stream)

    async def _until_left(self, stream: SocketStream) -> None:
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self.left.set()


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[LocalChat]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.answer)
        chat = LocalChat(f"http://127.0.0.1:{port}", key="secret-of-the-server", seed=7)
        try:
            yield chat
        finally:
            await chat.aclose()
            group.cancel_scope.cancel()


async def test_an_answer_becomes_chunks_that_end_with_its_finish() -> None:
    server = Server(HEAD, delta("Hel"), delta("lo"), STOP, USAGE, DONE)
    assembler = BlockAssembler()
    async with connected(server) as chat, aclosing(chat.stream(HELLO)) as chunks:
        async for chunk in chunks:
            assembler.push(chunk)
    assert [block.to_wire() for block in assembler.blocks()] == [{"type": "text", "text": "Hello"}]
    assert (assembler.usage, assembler.finish) == (Usage(5, 2), Finish.stop())


async def test_a_request_carries_key_seed_and_further_fields() -> None:
    server = Server(HEAD, delta("1"), STOP, DONE)
    async with connected(server) as chat:
        text, _ = await chat.complete(HELLO, json_schema={"enum": [1]})
    assert text == "1"
    [sent] = server.requests
    assert b"authorization: Bearer secret-of-the-server" in sent
    body = json.loads(sent[sent.index(b"{") :])
    assert (body["seed"], body["json_schema"]) == (7, {"enum": [1]})


@pytest.mark.parametrize("taken", [1, 2, 3])
async def test_leaving_a_stream_early_closes_the_connection(taken: int) -> None:
    """M-130, B-131: at once, and without anything left behind."""
    server = Server(HEAD, delta("a"), delta("b"), delta("c"), closes=False)
    async with connected(server) as chat:
        async with aclosing(chat.stream(HELLO)) as chunks:
            for _ in range(taken):
                await anext(chunks)
        with anyio.fail_after(5):
            await server.left.wait()


async def test_cancelling_a_read_closes_the_connection() -> None:
    """M-130: the cancellation passes and no scope is left behind."""
    server = Server(HEAD, delta("a"), closes=False)
    async with connected(server) as chat:
        with anyio.CancelScope() as scope:
            async with aclosing(chat.stream(HELLO)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextDelta):
                        scope.cancel()
        assert scope.cancelled_caught
        with anyio.fail_after(5):
            await server.left.wait()


async def fails_with(server: Server, run: Callable[[LocalChat], Awaitable[object]]) -> LlmError:
    async with connected(server) as chat:
        with pytest.raises(LlmError) as caught:
            await run(chat)
    return caught.value


async def test_a_conversation_that_is_too_long_says_so() -> None:
    said = {"error": {"code": 400, "message": "request exceeds the available context size"}}
    body = json.dumps(said).encode()
    head = f"HTTP/1.1 400 Bad Request\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    error = await fails_with(Server(head, body), lambda chat: chat.complete(HELLO))
    assert error.code == "CONTEXT_WINDOW_EXCEEDED"
    assert "the local model" in str(error)


async def test_a_server_that_goes_away_in_front_of_the_answer_is_a_broken_connection() -> None:
    error = await fails_with(Server(b""), lambda chat: chat.complete(HELLO))
    assert error.code == "TRANSPORT"


async def test_an_answer_that_breaks_off_is_a_closed_stream() -> None:
    error = await fails_with(Server(HEAD, delta("a")), lambda chat: chat.complete(HELLO))
    assert error.code == "STREAM_CLOSED"


async def test_closing_the_chat_ends_a_stream_in_flight() -> None:
    server = Server(HEAD, delta("a"), closes=False)
    failures: list[str] = []

    async def read(chat: LocalChat, started: anyio.Event) -> None:
        try:
            async with aclosing(chat.stream(HELLO)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, FinishChunk) and chunk.finish.failure:
                        failures.append(chunk.finish.failure.code)
                    started.set()
        except LlmError as error:
            failures.append(error.code)

    async with connected(server) as chat, anyio.create_task_group() as group:
        started = anyio.Event()
        group.start_soon(read, chat, started)
        await started.wait()
        await chat.aclose()
    assert failures in (["TRANSPORT"], ["STREAM_CLOSED"])
