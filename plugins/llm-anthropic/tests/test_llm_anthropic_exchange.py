"""One request and its answer over a real socket."""

import json
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
import pytest

from fault_cases import CODES, FINISHES, ReplayServers, fault_cases
from mounted_models import mounted_model
from terret_context import Container, PluginFailedError
from terret_llm import (
    BlockAssembler,
    BlockEnd,
    FinishChunk,
    GenerateOptions,
    HarnessError,
    Llm,
    LlmCallConfig,
    Message,
    ModelInfo,
    ReasoningDelta,
    TextDelta,
    ToolCallBlock,
    Usage,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_llm.wire import AnswerStream
from terret_plugin_llm_anthropic import llm_anthropic
from terret_testing import (
    FaultyModelServer,
    WireAnswer,
    event_answer,
    messages_answer,
    raw_answer,
    status_answer,
)

mounted = partial(mounted_model, llm_anthropic)
HELLO = messages_answer("Hello")
CASES = [*fault_cases("an-"), *fault_cases("http-529")]
PLANS = [(case, plan) for case in CASES for plan in case["serve"]["plan"]]


async def ask(llm: Llm, *messages: Message, **fields: Any) -> list[Any]:
    options = {"provider": "anthropic", "model": "m"} | fields
    request = GenerateOptions(messages=messages or (create_user_message("hi"),), **options)
    chunks: list[Any] = []
    with anyio.fail_after(20):
        async with aclosing(llm.stream(request)) as stream:
            chunks += [chunk async for chunk in stream]
    return chunks


def assembled(chunks: list[Any]) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.push(chunk)
    return assembler


@pytest.fixture(scope="module")
def servers() -> Iterator[ReplayServers]:
    with ReplayServers() as servers:
        yield servers


@pytest.mark.skipif(not CASES, reason="the fault cases are not here")
@pytest.mark.parametrize(
    ("case", "plan"), PLANS, ids=[f"{case['name']}-{plan}" for case, plan in PLANS]
)
async def test_a_fault_has_the_outcome_it_must_have(
    case: dict[str, Any], plan: str, servers: ReplayServers
) -> None:
    """B-100 to B-107, B-110: text before a failure, calls, usage, the code."""
    settings = {"baseUrl": f"{servers.url(plan)}/{case['name']}", "apiKey": "k-1234567"}
    async with mounted(None, **settings, maxContinuations=0) as llm:
        chunks = await ask(llm)
    expect = case["expect"]
    assert "".join(c.text for c in chunks if isinstance(c, TextDelta)) == expect["text"]
    reasoning = "".join(c.text for c in chunks if isinstance(c, ReasoningDelta))
    assert reasoning == expect.get("reasoning", "")
    finish = chunks[-1].finish
    assert finish.kind == FINISHES[expect["finish"]]
    if expect["error"] is None:
        blocks = [c.block for c in chunks if isinstance(c, BlockEnd)]
        calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
        assert [(call.id, call.name, json.loads(call.arguments)) for call in calls] == [
            (call["id"], call["name"], call["args"]) for call in expect["tool_calls"]
        ]
        check_usage(assembled(chunks).usage, expect.get("usage"))
    else:
        assert finish.failure.code in CODES[expect["error"]["class"]]


def check_usage(usage: Usage | None, expect: dict[str, int] | None) -> None:
    if expect is not None:
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens) == (expect["in"], expect["out"])
        assert usage.cache_read_tokens == expect.get("cached")
        assert usage.cache_write_tokens == expect.get("cache_write")


async def test_the_request_carries_path_key_and_version() -> None:
    """M-012, M-013: in the provider's own headers."""
    settings = {"apiKey": " k-1234567 ", "betas": ["a", "b"], "topP": 0.9}
    async with FaultyModelServer(HELLO, HELLO) as server:
        async with mounted(server, **settings) as llm:
            await ask(llm)
        async with mounted(server, apiKey="k-1234567", auth="bearer") as llm:
            await ask(llm)
    first, second = server.requests
    assert first.path == "/v1/messages"
    assert first.headers["x-api-key"] == "k-1234567"
    assert first.headers["anthropic-version"] == "2023-06-01"
    assert first.headers["anthropic-beta"] == "a,b"
    assert first.headers["user-agent"].startswith("terret-plugin-llm-anthropic/")
    assert (first.json["max_tokens"], first.json["top_p"]) == (8192, 0.9)
    assert second.headers["authorization"] == "Bearer k-1234567"
    assert "x-api-key" not in second.headers


async def test_a_conversation_with_thoughts_and_tools_is_replayed_exactly() -> None:
    """B-087, M-029: what came over the wire goes back over it, signature included."""
    calls = [("toolu_0123456789abcdefgh", "add", '{"x":1}')]
    thoughtful = messages_answer("So: ", thinking=("step 1\nstep 2 ", "c2ln"), calls=calls)
    async with FaultyModelServer(thoughtful, HELLO) as server, mounted(server) as llm:
        question = create_user_message("1?")
        answer = assembled(await ask(llm, question))
        said = create_assistant_message(
            answer.blocks(), "anthropic", "m", replay_state=answer.replay_state
        )
        result = create_tool_result_message("toolu_0123456789abcdefgh", "2")
        await ask(llm, question, said, result)
    assert server.requests[1].json["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "step 1\nstep 2 ", "signature": "c2ln"},
        {"type": "text", "text": "So: "},
        {"type": "tool_use", "id": calls[0][0], "name": "add", "input": {"x": 1}},
    ]


def paused(text: str, number: int) -> WireAnswer:
    block = {"type": "server_tool_use", "id": f"srv_{number}", "name": "web_search", "input": {}}
    usage = {"input_tokens": 10, "output_tokens": 1}
    return event_answer(
        {"type": "message_start", "message": {"usage": usage}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": text},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"query":"x"}'},
        },
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": usage},
        {"type": "message_stop"},
    )


async def test_a_paused_turn_goes_on_with_what_was_said_unchanged() -> None:
    """B-102: no user message in between; one answer, and the tokens of both requests."""
    async with FaultyModelServer(paused("A", 1), HELLO) as server, mounted(server) as llm:
        chunks = await ask(llm)
    answer = assembled(chunks)
    assert [block.type for block in answer.blocks()] == ["text", "server_tool_use", "text"]
    assert answer.finish.kind == "stop"
    assert answer.usage == Usage(20, 6)
    assert sum(isinstance(chunk, FinishChunk) for chunk in chunks) == 1
    roles = [message["role"] for message in server.requests[1].json["messages"]]
    assert roles == ["user", "assistant"]
    sent = server.requests[1].json["messages"][1]["content"]
    assert sent == [
        {"type": "text", "text": "A"},
        {
            "type": "server_tool_use",
            "id": "srv_1",
            "name": "web_search",
            "input": {"query": "x"},
        },
    ]


async def test_pauses_are_bounded() -> None:
    """B-102: then the finish says so."""
    answers = [paused("A", n) for n in range(3)]
    async with FaultyModelServer(*answers) as server, mounted(server, maxContinuations=2) as llm:
        answer = assembled(await ask(llm))
    assert answer.finish.kind == "pause"
    assert len(server.requests) == 3


async def test_what_is_not_known_is_ignored_and_counted() -> None:
    """B-107: events, deltas and blocks of the future."""
    from terret_plugin_llm_anthropic._decoding import MessagesDecoder

    decoder = MessagesDecoder()
    events: list[dict[str, Any]] = [
        {"type": "future_thing"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "sparkle_delta"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "ping"},
        {"type": "message_stop"},
    ]
    chunks = [chunk for event in events for chunk in decoder.push(json.dumps(event).encode())]
    assert [chunk.type for chunk in chunks] == ["block-start", "text-delta", "block-end", "finish"]
    assert dict(decoder.ignored) == {"future_thing": 1, "sparkle_delta": 1, "delta": 1}


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
async def test_an_event_that_is_no_object_is_a_malformed_answer(text: str) -> None:
    """M-069: it is not guessed what it could mean."""
    async with FaultyModelServer(event_answer(text)) as server, mounted(server) as llm:
        finish = (await ask(llm))[-1].finish
    assert finish.failure.code == "MALFORMED_RESPONSE"


async def test_a_whole_answer_in_one_json_is_an_answer() -> None:
    """B-022: as servers send it that cannot stream."""
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "toolu_0123456789abcdefgh", "name": "f", "input": {"x": 1}},
    ]
    whole = {
        "type": "message",
        "content": content,
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    async with FaultyModelServer(raw_answer(json.dumps(whole))) as server, mounted(server) as llm:
        answer = assembled(await ask(llm))
    assert [block.type for block in answer.blocks()] == ["reasoning", "text", "tool-call"]
    assert (answer.finish.kind, answer.usage) == ("tool-calls", Usage(3, 2))


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 400, "CONTEXT_WINDOW_EXCEEDED"),
        ("input length and `max_tokens` exceed context limit: 1", 400, "CONTEXT_WINDOW_EXCEEDED"),
        ("Your credit balance is too low", 400, "QUOTA"),
        ("messages: roles must alternate", 400, "INVALID_REQUEST"),
    ],
)
async def test_refusals_have_their_codes(said: str, status: int, code: str) -> None:
    """M-031, B-127: also those of this provider's own wording."""
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    async with FaultyModelServer(status_answer(status, error)) as server, mounted(server) as llm:
        finish = (await ask(llm))[-1].finish
    assert finish.failure.code == code


async def test_models_are_listed_with_what_the_server_says_of_them() -> None:
    """M-075: settings beat it."""
    entry = {"id": "claude", "display_name": "Claude", "max_input_tokens": 200_000}
    listed = raw_answer(json.dumps({"data": [entry]}))
    efforts = ("off", "low", "medium", "high", "xhigh", "max")
    async with FaultyModelServer(models=listed) as server, mounted(server) as llm:
        assert await llm.list_models("anthropic") == (
            ModelInfo(
                id="claude",
                title="Claude",
                context_window=200_000,
                max_tokens=8192,
                reasoning_efforts=efforts,
            ),
        )


async def test_an_effort_is_checked_against_the_style_before_anything_is_sent() -> None:
    """M-065: budgets have the efforts that have a budget."""
    async with FaultyModelServer() as server, mounted(server, thinkingStyle="budget") as llm:
        config = LlmCallConfig(provider="anthropic", model="m", reasoning_effort="xhigh")
        with pytest.raises(HarnessError) as raised:
            await llm.prepare_call(config)
        finish = (await ask(llm, reasoning_effort="xhigh"))[-1].finish
    assert raised.value.code == finish.failure.code == "UNSUPPORTED_REASONING_EFFORT"


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"extraBody": {"system": "x"}}, "cannot set system"),
        ({"reasoningEfforts": ["huge"]}, "reasoningEfforts: huge is none of off"),
        ({"thinkingBudgets": {"low": 10}}, "thinkingBudgets.low"),
        ({"promptCache": "1d"}, "promptCache"),
    ],
)
async def test_a_wrong_setting_fails_the_plugin_and_is_named(
    config: dict[str, Any], fault: str
) -> None:
    async with Container() as root:
        await root.plugin(Llm).ready()
        with pytest.raises(PluginFailedError) as raised:
            await root.plugin(llm_anthropic, config).ready()
    assert fault in str(raised.value.__cause__)


def test_wherever_the_body_ends_it_is_complete_only_behind_its_last_event() -> None:
    """B-101, M-069: also in the middle of an event; a stop reason alone is not the end."""
    from terret_plugin_llm_anthropic._decoding import MessagesDecoder

    body = messages_answer("Hel", "lö").body
    complete = body.rindex(b"}") + 1
    for end in range(len(body)):
        stream = AnswerStream(MessagesDecoder())
        finish = [*stream.feed(body[:end]), *stream.close()][-1]
        assert isinstance(finish, FinishChunk)
        failure = finish.finish.failure
        assert (failure is None) == (end >= complete)
        assert failure is None or failure.code in ("EMPTY_RESPONSE", "STREAM_CLOSED")


async def test_an_answer_whose_prompt_was_not_counted_has_no_usage() -> None:
    """B-110, M-070: a server may leave out the beginning, where its counts are."""
    events = HELLO.body.split(b"\n\n")
    headless = raw_answer(b"\n\n".join(events[1:]))
    async with FaultyModelServer(headless) as server, mounted(server) as llm:
        answer = assembled(await ask(llm))
    assert (answer.finish.kind, answer.usage) == ("stop", None)
    assert [block.type for block in answer.blocks()] == ["text"]
