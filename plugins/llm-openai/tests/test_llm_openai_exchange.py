"""One request and its answer over a real socket: what is sent, what comes back, how it ends."""

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute

from mounted_models import mounted_model
from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmFailure,
    TextBlock,
    TextDelta,
    create_user_message,
)
from terret_plugin_llm_openai import llm_openai
from terret_testing import (
    FaultyModelServer,
    WireAnswer,
    WireRequest,
    chat_answer,
    event_answer,
    silent_answer,
    status_answer,
)

mounted = partial(mounted_model, llm_openai)
STOP = FinishChunk(Finish.stop())
HELLO = chat_answer("Hel", "lo")
HELLO_CHUNKS = [
    BlockStart(0, "text"),
    TextDelta(0, "Hel"),
    TextDelta(0, "lo"),
    BlockEnd(0, TextBlock("Hello")),
    STOP,
]
BEGUN = event_answer(*({"choices": [{"delta": {"content": text}}]} for text in "abcd"))


def request(**fields: Any) -> GenerateOptions:
    messages = (create_user_message("hi"),)
    return GenerateOptions(**{"provider": "openai", "model": "m", "messages": messages} | fields)


async def collected(chunks: Chunks) -> list[Chunk]:
    with anyio.fail_after(20):
        async with aclosing(chunks):
            return [chunk async for chunk in chunks]


async def failure(llm: Llm) -> LlmFailure:
    finish = (await collected(llm.stream(request())))[-1]
    assert isinstance(finish, FinishChunk)
    assert finish.finish.failure is not None
    return finish.finish.failure


async def test_an_answer_streams_over_one_connection_for_all_requests() -> None:
    async with FaultyModelServer(HELLO, HELLO, HELLO) as server, mounted(server) as llm:
        for _ in range(3):
            assert await collected(llm.stream(request())) == HELLO_CHUNKS
    assert server.connections == 1


async def test_the_request_carries_path_key_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """M-012, M-013: the key is trimmed, the user agent comes from the metadata."""
    monkeypatch.setenv("TEAM_KEY", " sk-1234567 \n")
    settings = {"temperature": 0.5, "topP": 0.9, "stop": ["END"], "extraBody": {"seed": 7}}
    settings |= {"headers": {"X-Team": "blue"}, "apiKeyEnv": "TEAM_KEY"}
    async with FaultyModelServer(HELLO) as server, mounted(server, **settings) as llm:
        await collected(llm.stream(request(system="Be brief.", max_tokens=5)))
    [sent] = server.requests
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == "Bearer sk-1234567"
    assert sent.headers["user-agent"].startswith("terret-plugin-llm-openai/")
    assert sent.headers["x-team"] == "blue"
    assert sent.json["messages"][0] == {"role": "system", "content": "Be brief."}
    chosen = {key: sent.json[key] for key in ("temperature", "top_p", "stop", "seed", "max_tokens")}
    assert chosen == {
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "max_tokens": 5,
    }


async def test_a_request_beats_the_configured_defaults() -> None:
    settings = {"temperature": 0.5, "stop": ["a"], "maxTokens": 9}
    async with FaultyModelServer(HELLO) as server, mounted(server, **settings) as llm:
        await collected(llm.stream(request(temperature=0.0, stop=("b",), max_tokens=5)))
    sent = server.requests[0].json
    assert (sent["temperature"], sent["stop"], sent["max_tokens"]) == (0, ["b"], 5)


async def test_session_and_purpose_are_sent_where_the_server_shall_know_them() -> None:
    """M-073: in the headers that are configured, and in none by default."""
    named = {"sessionHeader": "X-Session", "purposeHeader": "x-purpose"}
    options = request(session_id="s1", purpose="compaction")
    async with FaultyModelServer(HELLO, HELLO) as server:
        async with mounted(server, **named, headers={"x-user": "u1"}) as llm:
            await collected(llm.stream(options))
        async with mounted(server) as llm:
            await collected(llm.stream(options))
    marked, plain = server.requests
    names = ("x-session", "x-purpose", "x-user")
    assert [marked.headers.get(name) for name in names] == ["s1", "compaction", "u1"]
    assert b"s1" not in plain.body
    assert "s1" not in plain.headers.values()


async def test_an_error_status_is_a_typed_failure_without_secrets() -> None:
    """M-071, B-125: status, code, wait and request id; keys are removed from the text."""
    body = {"error": {"message": "slow down, my-own-key"}}
    answer = status_answer(429, body, retry_after="2", x_request_id="req-1")
    async with FaultyModelServer(answer) as server, mounted(server, apiKey="my-own-key") as llm:
        assert await failure(llm) == LlmFailure(
            f"openai at {server.host} answered HTTP 429: slow down, [removed]; it asks to wait 2 s",
            "RATE_LIMIT",
            429,
            2000,
            "req-1",
        )


async def test_error_answers_do_not_use_up_connections() -> None:
    """B-130: thirty refusals, then an answer, over one connection."""
    refusals = [status_answer(429)] * 30
    async with FaultyModelServer(*refusals, HELLO) as server, mounted(server) as llm:
        for _ in refusals:
            assert (await failure(llm)).code == "RATE_LIMIT"
        assert await collected(llm.stream(request())) == HELLO_CHUNKS
    assert server.connections == 1


async def test_a_refused_connection_is_a_transport_failure_that_names_the_host() -> None:
    """M-050, B-133: nobody listens there."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
    async with mounted(base_url=f"http://127.0.0.1:{port}/v1") as llm:
        found = await failure(llm)
    assert found.code == "TRANSPORT"
    assert found.message == (
        f"cannot connect to openai at 127.0.0.1:{port}: Connection refused; does the server run?"
    )


CLOSED = WireAnswer(headers_first=False, ending="hang-up")


@pytest.mark.parametrize("closed", [CLOSED, replace(CLOSED, ending="reset")])
async def test_a_resting_connection_that_was_closed_is_replaced(closed: WireAnswer) -> None:
    """M-072: the server closes it just when it is used again; nobody needs to repeat anything."""
    async with FaultyModelServer(HELLO, closed, HELLO) as server, mounted(server) as llm:
        for _ in range(2):
            assert await collected(llm.stream(request())) == HELLO_CHUNKS
    assert (len(server.requests), server.connections) == (3, 2)
    assert server.requests[1].body == server.requests[2].body


async def test_a_new_connection_that_was_closed_is_a_failure() -> None:
    """B-019: whether to ask again is for the policy."""
    async with FaultyModelServer(CLOSED) as server, mounted(server) as llm:
        assert (await failure(llm)).code == "TRANSPORT"
    assert len(server.requests) == 1


@pytest.mark.parametrize("spoilt", [BEGUN.hangs_up(), BEGUN.resets()])
async def test_a_connection_that_breaks_is_a_transport_failure_after_the_text(
    spoilt: WireAnswer,
) -> None:
    """B-019, M-072: what came is delivered, the failure is not taken for the end."""
    async with FaultyModelServer(spoilt) as server, mounted(server) as llm:
        chunks = await collected(llm.stream(request()))
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == "abcd"
    assert isinstance(chunks[-1], FinishChunk)
    assert chunks[-1].finish.failure is not None
    assert chunks[-1].finish.failure.code == "TRANSPORT"


async def test_a_connection_that_breaks_after_the_finish_reason_does_no_harm() -> None:
    """B-015: the model had said that it was done."""
    end = HELLO.body.index(b"data: [DONE]")
    async with FaultyModelServer(HELLO.hangs_up(end)) as server, mounted(server) as llm:
        assert await collected(llm.stream(request())) == HELLO_CHUNKS


@pytest.mark.parametrize("ping", [b"", b": ping\n\n"])
@pytest.mark.parametrize("limits", [{"idleTimeout": 0.1}, {"totalTimeout": 0.2}])
async def test_silence_behind_the_finish_reason_does_no_harm(
    limits: dict[str, float], ping: bytes
) -> None:
    """B-015, B-016: an end mark or counts may follow, and are not waited for as long as a text."""
    end = HELLO.body.index(b"data: [DONE]")
    held = HELLO.holds(end, ping=ping)
    async with FaultyModelServer(held) as server, mounted(server, **limits) as llm:
        assert await collected(llm.stream(request())) == HELLO_CHUNKS
        await server.left_by(1)


async def test_a_stream_that_just_ends_is_not_complete() -> None:
    """B-013: no finish reason, no end mark."""
    async with FaultyModelServer(BEGUN) as server, mounted(server) as llm:
        assert (await failure(llm)).code == "STREAM_CLOSED"


async def test_the_end_mark_ends_the_stream_though_the_server_holds_the_connection() -> None:
    """B-016: the connection is closed, not waited for."""
    async with FaultyModelServer(HELLO.holds()) as server, mounted(server) as llm:
        assert await collected(llm.stream(request())) == HELLO_CHUNKS
        await server.left_by(1)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (silent_answer(), ""),
        (HELLO.holds(0), ""),
        (BEGUN.holds(), "abcd"),
        (HELLO.holds(0, ping=b": ping\n\n"), ""),
        (BEGUN.holds(ping=b": ping\n\n"), "abcd"),
        (BEGUN.holds(ping=b'data: {"choices":[{"delta":{"content":""}}]}\n\n'), "abcd"),
    ],
)
async def test_silence_is_a_timeout_and_comments_do_not_break_it(
    answer: WireAnswer, text: str
) -> None:
    """B-017, B-018, M-072: before the answer, before its first event, in its middle, with pings."""
    limits = {"firstByteTimeout": 0.1, "idleTimeout": 0.1}
    async with FaultyModelServer(answer) as server, mounted(server, **limits) as llm:
        chunks = await collected(llm.stream(request()))
        await server.left_by(1)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == text
    assert isinstance(chunks[-1], FinishChunk)
    found = chunks[-1].finish.failure
    assert found is not None
    assert found.code == "TIMEOUT"
    assert found.message.startswith(f"openai at {server.host} sent nothing of an answer for 0.1 s")


async def test_comments_keep_a_server_alive_that_has_not_begun() -> None:
    """M-072: a busy server sends them while a request waits; the first output has a limit."""
    limits = {"firstByteTimeout": 0.3, "idleTimeout": 0.05}
    waiting = HELLO.holds(0, ping=b": keep-alive\n\n")
    async with FaultyModelServer(waiting) as server, mounted(server, **limits) as llm:
        found = await failure(llm)
    assert "for 0.3 s" in found.message


@pytest.mark.parametrize("before", [True, False])
async def test_a_server_that_has_sent_its_headers_may_think_as_long_as_one_that_has_not(
    before: bool,
) -> None:
    """M-072: only outputs of the model are followed by the shorter limit."""
    limits = {"firstByteTimeout": 0.3, "idleTimeout": 0.05}
    silence = HELLO.holds(0) if before else BEGUN.holds()
    async with FaultyModelServer(silence) as server, mounted(server, **limits) as llm:
        found = await failure(llm)
    assert ("0.3 s (firstByteTimeout)" if before else "0.05 s (idleTimeout)") in found.message


@pytest.mark.parametrize("more", [b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n', b""])
async def test_a_whole_answer_may_have_a_limit(more: bytes) -> None:
    """B-018: for a model that never stops, and for one that falls silent."""
    endless = BEGUN.holds(ping=more)
    async with FaultyModelServer(endless) as server, mounted(server, totalTimeout=0.2) as llm:
        found = await failure(llm)
    assert found.code == "TIMEOUT"
    assert "within 0.2 s (totalTimeout)" in found.message


@pytest.mark.parametrize("seen", range(1, 7))
async def test_leaving_after_any_chunk_closes_the_connection(seen: int) -> None:
    """M-130, B-131: the consumer closes, the server sees it, the next request works."""
    async with FaultyModelServer(BEGUN.holds(), HELLO) as server, mounted(server) as llm:
        async with aclosing(llm.stream(request())) as chunks:
            for _ in range(min(seen, 5)):
                await anext(chunks)
        await server.left_by(1)
        await chunks.aclose()
        assert await collected(llm.stream(request())) == HELLO_CHUNKS


@pytest.mark.parametrize(
    "answer", [silent_answer(), BEGUN.holds(0), BEGUN.holds(50), BEGUN.holds()]
)
async def test_cancelling_in_any_read_closes_the_connection(answer: WireAnswer) -> None:
    """M-130, M-072: before the headers, before the first event, and between events."""
    scope = anyio.CancelScope()

    async def cancel_soon(seen: WireRequest) -> None:
        await anyio.wait_all_tasks_blocked()
        scope.cancel()

    async with anyio.create_task_group() as tasks:

        def begun(seen: WireRequest) -> WireAnswer:
            tasks.start_soon(cancel_soon, seen)
            return answer

        async with FaultyModelServer(begun, HELLO) as server, mounted(server) as llm:
            with scope:
                await collected(llm.stream(request()))
            assert scope.cancelled_caught
            await server.left_by(1)
            assert await collected(llm.stream(request())) == HELLO_CHUNKS


async def test_two_hundred_answers_at_once_do_not_disturb_each_other() -> None:
    """Streams are spread over clients; each gets its own answer."""

    def echo(sent: WireRequest) -> WireAnswer:
        return chat_answer(sent.json["messages"][0]["content"])

    async def ask(llm: Llm, number: int) -> None:
        asked = request(messages=(create_user_message(f"number {number}"),))
        chunks = await collected(llm.stream(asked))
        assert TextDelta(0, f"number {number}") in chunks

    async with (
        FaultyModelServer(*[echo] * 200) as server,
        mounted(server) as llm,
        anyio.create_task_group() as tasks,
    ):
        for number in range(200):
            tasks.start_soon(ask, llm, number)


async def test_a_proxy_is_used_if_one_is_set() -> None:
    """The request goes to it with the whole address of the server."""
    async with FaultyModelServer(HELLO) as proxy:
        address = f"http://{proxy.host}"
        async with mounted(base_url="http://models.invalid/v1", proxy=address) as llm:
            assert await collected(llm.stream(request())) == HELLO_CHUNKS
    assert proxy.requests[0].path == "http://models.invalid/v1/chat/completions"


async def test_a_server_on_this_machine_is_not_asked_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with FaultyModelServer(HELLO) as server, mounted(server) as llm:
        assert await collected(llm.stream(request())) == HELLO_CHUNKS


async def test_a_handshake_that_hangs_is_a_timeout_of_the_connection() -> None:
    """B-133: told apart from a refused connection, and from silence behind the request."""
    async with (
        FaultyModelServer() as server,
        mounted(base_url=f"https://{server.host}/v1", connect_timeout=0.2) as llm,
    ):
        found = await failure(llm)
    assert found.code == "TIMEOUT"
    assert found.message == (
        f"openai at {server.host} did not accept a connection within 0.2 s (connectTimeout)"
    )
