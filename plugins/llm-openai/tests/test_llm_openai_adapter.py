"""The plugin in a container, against a server on a real loopback socket."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from terret_context import ConfigError, Container, PluginFailedError
from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmCallConfig,
    LlmFailure,
    TextBlock,
    TextDelta,
    create_user_message,
)
from terret_loader import open_harness
from terret_plugin_llm_openai import OpenAiConfig, llm_openai

Script = Callable[[SocketStream], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
GONE = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)
END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"
STOP = FinishChunk(Finish.stop())


def event(finish: str | None = None, **delta: Any) -> bytes:
    payload = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def framed(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def streams(*pieces: bytes, end: bytes = END) -> Script:
    """Answer with an event stream, and close it unless `end` is empty."""

    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"".join(map(framed, pieces)) + end)

    return script


def answers(status: int, body: bytes, *headers: bytes) -> Script:
    async def script(stream: SocketStream) -> None:
        lines = [b"HTTP/1.1 %d X" % status, b"content-length: %d" % len(body), *headers]
        await stream.send(b"\r\n".join(lines) + b"\r\n\r\n" + body)

    return script


class Server:
    """Answers the n-th request with the n-th script, the last one from then on."""

    def __init__(self, port: int, scripts: tuple[Script, ...]) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.host = f"127.0.0.1:{port}"
        self.scripts = scripts
        self.heads: list[str] = []
        self.bodies: list[Any] = []
        self.connections = 0
        self.disconnected = anyio.Event()

    async def handle(self, stream: SocketStream) -> None:
        self.connections += 1
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while True:
                    await self.serve_one(stream, reader)
            except GONE:
                self.disconnected.set()

    async def serve_one(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> None:
        head = (await reader.receive_until(b"\r\n\r\n", 65536)).decode().lower()
        length = next(
            int(line[15:]) for line in head.split("\r\n") if line[:15] == "content-length:"
        )
        script = self.scripts[min(len(self.heads), len(self.scripts) - 1)]
        self.heads.append(head)
        self.bodies.append(json.loads(await reader.receive_exactly(length)))
        await script(stream)


@asynccontextmanager
async def serving(*scripts: Script, **config: Any) -> AsyncIterator[tuple[Server, Llm]]:
    """A server with these scripts, and the service with the plugin mounted for that server."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        server = Server(listener.extra(SocketAttribute.local_port), scripts)
        tasks.start_soon(listener.serve, server.handle)
        async with mounted(base_url=server.url, **config) as llm:
            yield server, llm
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def mounted(**config: Any) -> AsyncIterator[Llm]:
    async with Container() as root:
        await root.plugin(Llm).ready()
        await root.plugin(llm_openai, {"api_key_env": "TERRET_TEST_KEY", **config}).ready()
        yield root[Llm]


def request(**fields: Any) -> GenerateOptions:
    messages = (create_user_message("hi"),)
    return GenerateOptions(provider="openai", model="m", messages=messages, **fields)


async def collected(chunks: Chunks) -> list[Chunk]:
    with anyio.fail_after(20):
        async with aclosing(chunks):
            return [chunk async for chunk in chunks]


async def failure(llm: Llm) -> LlmFailure:
    finish = (await collected(llm.stream(request())))[-1]
    assert isinstance(finish, FinishChunk)
    assert finish.finish.failure is not None
    return finish.finish.failure


HELLO = streams(event(content="Hel"), event(content="lo"), event("stop"), DONE)
HELLO_CHUNKS = [
    BlockStart(0, "text"),
    TextDelta(0, "Hel"),
    TextDelta(0, "lo"),
    BlockEnd(0, TextBlock("Hello")),
    STOP,
]


async def test_an_answer_streams_over_one_connection_for_all_requests() -> None:
    async with serving(HELLO) as (server, llm):
        for _ in range(3):
            assert await collected(llm.stream(request())) == HELLO_CHUNKS
    assert (len(server.heads), server.connections) == (3, 1)


async def test_the_request_carries_path_key_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """M-012, M-013: the key is trimmed, the user agent comes from the metadata."""
    monkeypatch.setenv("TERRET_TEST_KEY", " sk-1234567 \n")
    settings = {"temperature": 0.5, "extraBody": {"seed": 7}, "headers": {"x-team": "blue"}}
    async with serving(HELLO, **settings) as (server, llm):
        await collected(llm.stream(request(system="Be brief.", max_tokens=5)))
    [head], [body] = server.heads, server.bodies
    assert head.startswith("post /v1/chat/completions http/1.1")
    assert "authorization: bearer sk-1234567\r\n" in head
    assert "user-agent: terret-plugin-llm-openai/" in head
    assert "x-team: blue" in head
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.5, 7, 5)


async def test_a_request_may_override_the_configured_temperature() -> None:
    async with serving(HELLO, temperature=0.5) as (server, llm):
        await collected(llm.stream(request(temperature=0.0)))
    assert server.bodies[0]["temperature"] == 0


async def test_the_configured_model_and_cap_are_the_defaults() -> None:
    """M-026: an agent that names no model uses the one of the plugin."""
    async with serving(HELLO, model="tiny", maxTokens=64, contextWindow=4096) as (_, llm):
        call = await llm.prepare_call(LlmCallConfig(provider="openai"))
        assert (call.config.model, call.config.max_tokens) == ("tiny", 64)
        assert call.adapter_defaults == frozenset({"model", "max_tokens"})
        assert call.context_window == 4096
        assert [model.id for model in await llm.list_models("openai")] == ["tiny"]


async def test_a_missing_key_names_the_variable_and_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """M-074: mounting works; the first request says what to do, before any I/O."""
    monkeypatch.setenv("TERRET_TEST_KEY", "  ")
    async with mounted(base_url="https://models.invalid/v1") as llm:
        found = await failure(llm)
    assert found.code == "MISSING_CREDENTIAL"
    assert "TERRET_TEST_KEY is not set" in found.message
    assert "apiKeyEnv: null" in found.message
    assert "models.invalid" in found.message


async def test_an_unusable_key_is_not_echoed(monkeypatch: pytest.MonkeyPatch) -> None:
    """M-012, M-074: the variable is named, the key is not."""
    monkeypatch.setenv("TERRET_TEST_KEY", "sk-sécret")
    async with mounted(base_url="https://models.invalid/v1") as llm:
        found = await failure(llm)
    assert found.code == "INVALID_CREDENTIAL"
    assert "TERRET_TEST_KEY" in found.message
    assert "cret" not in found.message.replace("TERRET", "")


async def test_a_server_on_this_machine_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERRET_TEST_KEY", raising=False)
    async with serving(HELLO) as (server, llm):
        assert await collected(llm.stream(request())) == HELLO_CHUNKS
    assert "authorization" not in server.heads[0]


async def test_a_key_in_the_config_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """M-074: precedence of the sources."""
    monkeypatch.setenv("TERRET_TEST_KEY", "sk-environment")
    async with serving(HELLO, apiKey="sk-configured") as (server, llm):
        await collected(llm.stream(request()))
    assert "bearer sk-configured" in server.heads[0]


async def test_an_error_status_is_a_typed_failure_without_secrets() -> None:
    """M-071, B-125: status, code, wait and request id; keys are removed from the text."""
    body = b'{"error":{"message":"slow down, my-own-key"}}'
    script = answers(429, body, b"retry-after: 2", b"x-request-id: req-1")
    async with serving(script, apiKey="my-own-key") as (server, llm):
        assert await failure(llm) == LlmFailure(
            f"{server.host} answered HTTP 429: slow down, [removed]",
            "RATE_LIMIT",
            429,
            2000,
            "req-1",
        )


async def test_error_answers_do_not_use_up_connections() -> None:
    """B-130: thirty refusals, then an answer, over one connection."""
    refusals = [answers(429, b'{"error":"busy"}')] * 30
    async with serving(*refusals, HELLO) as (server, llm):
        for _ in refusals:
            assert (await failure(llm)).code == "RATE_LIMIT"
        assert await collected(llm.stream(request())) == HELLO_CHUNKS
    assert server.connections == 1


async def test_a_refused_connection_is_a_transport_failure_that_names_the_host() -> None:
    """M-050: nobody listens there."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
    async with mounted(base_url=f"http://127.0.0.1:{port}/v1") as llm:
        found = await failure(llm)
    assert found.code == "TRANSPORT"
    assert f"cannot connect to 127.0.0.1:{port}" in found.message


def breaks(*pieces: bytes) -> Script:
    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"".join(map(framed, pieces)))
        await stream.aclose()

    return script


async def test_a_connection_that_breaks_is_a_transport_failure_after_the_text() -> None:
    """B-019: what came is delivered, the failure is not taken for the end."""
    async with serving(breaks(event(content="Hel"))) as (_, llm):
        chunks = await collected(llm.stream(request()))
    assert chunks[:2] == [BlockStart(0, "text"), TextDelta(0, "Hel")]
    assert isinstance(chunks[2], FinishChunk)
    assert chunks[2].finish.failure is not None
    assert chunks[2].finish.failure.code == "TRANSPORT"


async def test_a_connection_that_breaks_after_the_finish_reason_does_no_harm() -> None:
    """B-015: the model had said that it was done."""
    async with serving(breaks(event(content="Hello"), event("stop"))) as (_, llm):
        assert (await collected(llm.stream(request())))[-1] == STOP


async def test_a_stream_that_just_ends_is_not_complete() -> None:
    """B-013: no finish reason, no end mark."""
    async with serving(streams(event(content="Hel"))) as (_, llm):
        assert (await failure(llm)).code == "STREAM_CLOSED"


def held(*pieces: bytes) -> Script:
    """Answer with these events and then wait until the client goes away."""

    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"".join(map(framed, pieces)))
        await stream.receive()

    return script


async def test_the_end_mark_ends_the_stream_though_the_server_holds_the_connection() -> None:
    """B-016: the connection is closed, not waited for."""
    async with serving(held(event(content="x"), DONE)) as (server, llm):
        assert (await collected(llm.stream(request())))[-1] == STOP
        await server.disconnected.wait()


async def silent(stream: SocketStream) -> None:
    await stream.receive()


def pinging(*pieces: bytes) -> Script:
    async def script(stream: SocketStream) -> None:
        await stream.send(HEAD + b"".join(map(framed, pieces)))
        while True:
            await stream.send(framed(b": ping\n\n"))
            await anyio.sleep(0.01)

    return script


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (silent, ""),
        (held(), ""),
        (held(event(content="Wor")), "Wor"),
        (pinging(), ""),
        (pinging(event(content="Wor")), "Wor"),
    ],
)
async def test_silence_is_a_timeout_and_comments_do_not_break_it(script: Script, text: str) -> None:
    """B-017, B-018: before the answer, before its first event, in its middle, among pings."""
    async with serving(script, firstByteTimeout=0.1, idleTimeout=0.1) as (server, llm):
        chunks = await collected(llm.stream(request()))
        await server.disconnected.wait()
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == text
    assert isinstance(chunks[-1], FinishChunk)
    failure = chunks[-1].finish.failure
    assert failure is not None
    assert failure.code == "TIMEOUT"
    assert failure.message.startswith(f"{server.host} sent nothing of an answer for 0.1 s")


PIECES = [event(content="a"), event(content="b"), event(reasoning="c"), event(content="d")]


@pytest.mark.parametrize("seen", range(1, 7))
async def test_leaving_after_any_chunk_closes_the_connection(seen: int) -> None:
    """M-130, B-131: the consumer closes, the server sees it, the next request works."""
    async with serving(held(*PIECES), HELLO) as (server, llm):
        async with aclosing(llm.stream(request())) as chunks:
            for _ in range(seen):
                await anext(chunks)
        await server.disconnected.wait()
        await chunks.aclose()
        assert await collected(llm.stream(request())) == HELLO_CHUNKS


@pytest.mark.parametrize("sent", range(-1, 5))
async def test_cancelling_in_any_read_closes_the_connection(sent: int) -> None:
    """M-130, M-072: before the headers, before the first event, and between events."""
    scope = anyio.CancelScope()

    async def script(stream: SocketStream) -> None:
        if sent >= 0:
            await stream.send(HEAD + b"".join(map(framed, PIECES[:sent])))
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await stream.receive()

    async with serving(script, HELLO) as (server, llm):
        with scope:
            await collected(llm.stream(request()))
        assert scope.cancelled_caught
        await server.disconnected.wait()
        assert await collected(llm.stream(request())) == HELLO_CHUNKS


async def test_the_provider_goes_with_the_plugin() -> None:
    async with Container() as root:
        await root.plugin(Llm).ready()
        fiber = root.plugin(llm_openai, {"provider": "mine"})
        await fiber.ready()
        assert [info.name for info in root[Llm].list_providers()] == ["mine"]
        await fiber.dispose()
        assert root[Llm].list_providers() == ()


async def test_a_harness_file_mounts_it(tmp_path: Path) -> None:
    """Two servers are two entries of the same plugin."""
    file = tmp_path / "harness.yml"
    file.write_text(
        "plugins:\n"
        "  llm: {}\n"
        "  llm-openai: {model: gpt-5}\n"
        "  local: {use: llm-openai, provider: qwen, baseUrl: 'http://localhost:1/v1'}\n"
    )
    async with open_harness(file) as root:
        names = {info.name for info in root[Llm].list_providers()}
    assert names == {"openai", "qwen"}


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"baseUrl": "api.openai.com"}, "http://"),
        ({"extraBody": {"messages": []}}, "cannot set messages"),
        ({"idleTimeout": 0}, "greater than 0"),
        ({"modle": "m"}, 'did you mean "model"'),
    ],
)
async def test_a_wrong_setting_fails_the_plugin_and_is_named(
    config: dict[str, Any], fault: str
) -> None:
    async with Container() as root:
        await root.plugin(Llm).ready()
        with pytest.raises(PluginFailedError) as raised:
            await root.plugin(llm_openai, config).ready()
        assert isinstance(raised.value.__cause__, ConfigError)
        assert fault in str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("url", "loopback", "cap"),
    [
        ("https://api.openai.com/v1/", False, "max_completion_tokens"),
        ("http://localhost:8080/v1", True, "max_tokens"),
        ("http://127.8.0.1", True, "max_tokens"),
        ("http://[::1]:80/v1", True, "max_tokens"),
        ("https://models.invalid", False, "max_tokens"),
    ],
)
def test_the_address_tells_what_the_server_needs(url: str, loopback: bool, cap: str) -> None:
    config = OpenAiConfig(base_url=url)
    assert (config.is_loopback, config.output_cap_name) == (loopback, cap)
    assert not config.base_url.endswith("/")
