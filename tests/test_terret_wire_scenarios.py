"""The scenarios of the fault cases: real socket, real adapter, the loop, repetition, tools."""

import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio
import httpx2
import pytest

from fault_cases import fault_cases, replay_server
from terret_agents import TURN_STOP, AgentOptions, StopQuestion, TurnStop
from terret_context import Context, plugin
from terret_llm import ToolResultBlock
from terret_plugin_llm_anthropic import llm_anthropic
from terret_plugin_llm_openai import llm_openai
from terret_plugin_llm_retry import llm_retry
from terret_sessions import (
    AssistantMessage,
    Completed,
    Errored,
    MaxTokens,
    ToolCall,
    ToolResult,
    event_to_json,
)
from terret_testing import Harness, running_harness
from terret_tools import Tools, tool

CASES = {case["name"]: case for case in fault_cases("sc-")}
SINGLE = {case["name"]: case for case in fault_cases("oa-", "an-", "http-")}
needs_cases = pytest.mark.skipif(not CASES, reason="the fault cases are not here")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with replay_server() as url:
        yield url


@tool
def charge_card(cents: int) -> str:
    """Charge the card."""
    return f"charged {cents}"


@tool(is_concurrency_safe=lambda args: True)
async def ok_tool() -> str:
    """Work."""
    return "ok"


@tool(is_concurrency_safe=lambda args: True)
async def boom_tool() -> str:
    """Fail."""
    raise RuntimeError("boom")


@tool(is_concurrency_safe=lambda args: True)
async def sleep_tool(ms: int) -> str:
    """Sleep."""
    await anyio.sleep(ms / 1000)
    return f"slept {ms}"


@plugin(inject=(Tools,))
def tools(ctx: Context) -> None:
    """The tools of the scenarios."""
    for each in (charge_card, ok_tool, boom_tool, sleep_tool):
        ctx[Tools].register(each)


@plugin
def two_steps(ctx: Context) -> None:
    """Ends a turn after two steps: some scenarios call the same tool for ever."""

    async def stop(question: StopQuestion) -> TurnStop | None:
        return TurnStop() if question.step >= 2 else None

    ctx.on(TURN_STOP, stop)


@asynccontextmanager
async def playing(url: str, name: str, *, repeat: bool = True) -> AsyncIterator[Harness]:
    """An agent whose model is one scenario of the server."""
    is_anthropic = (CASES | SINGLE)[name]["provider"].endswith("anthropic")
    model = llm_anthropic if is_anthropic else llm_openai
    async with httpx2.AsyncClient() as client:
        await client.post(f"{url}/_reset")
    settings = {
        "baseUrl": f"{url}/{name}",
        "provider": "wire",
        "apiKey": "sk-test-SECRET",
        "retry": {"initialDelayMs": 1},
    }
    async with running_harness(
        plugins=[(model, settings), tools, two_steps, *([llm_retry] if repeat else [])],
        options=AgentOptions(provider="wire", model="m-test"),
    ) as harness:
        with anyio.fail_after(20):
            yield harness


async def requests_to(url: str) -> list[Any]:
    async with httpx2.AsyncClient() as client:
        found = (await client.get(f"{url}/_log")).json()
    assert isinstance(found, list)
    return found


ANSWERED = [
    "sc-429-retry-after-seconds",
    "sc-503-retry-after-httpdate",
    "sc-429-retry-after-odd-0",
    "sc-429-retry-after-odd-1",
    "sc-529-529-ok",
    "sc-overloaded-event-then-ok",
    "sc-500-after-tool",
    "sc-empty-then-ok",
]
ELSEWHERE = {
    "sc-doom-loop": "a plugin that detects loops decides, not the wire",
    "sc-overflow-then-compact": "compaction answers CONTEXT_WINDOW_EXCEEDED, not the wire",
    "sc-overflow-forever": "the same",
}


@needs_cases
@pytest.mark.parametrize("name", ANSWERED)
async def test_a_failure_that_passes_ends_in_the_answer(name: str, url: str) -> None:
    """B-120, B-122, B-124, B-129, B-135, M-050: as many requests as it takes, after the wait."""
    expect = CASES[name]["expect"]
    expect = expect | next(iter(expect.get("accept", [{}])))
    started = time.monotonic()
    async with playing(url, name) as harness:
        assert await harness.send("go") == "fine"
        executed = [event.view for event in harness.events if isinstance(event.view, ToolCall)]
    took = time.monotonic() - started
    requests = await requests_to(url)
    assert len(requests) == expect["requests"]
    gaps = [later["t"] - one["t"] for one, later in pairwise(requests)]
    assert max(gaps) >= expect.get("min_gap_s", 0)
    assert took < expect.get("max_seconds", 20)
    calls = [[call.name, json.loads(call.arguments)] for call in executed]
    assert calls == expect.get("executed", [])


@needs_cases
async def test_a_request_that_is_wrong_is_sent_once(url: str) -> None:
    """B-125, B-117: the turn fails with what the provider said; the next one does not repeat it."""
    async with playing(url, "sc-400-no-retry") as harness:
        assert await harness.send("go") == ""
        assert isinstance(harness.turn_end, Errored)
        assert harness.turn_end.failure.code == "INVALID_REQUEST"
        assert "bad schema" in harness.turn_end.failure.message
        assert len(await requests_to(url)) == 1
        assert await harness.send("again") == "fine"
    sent = json.loads((await requests_to(url))[1]["body"])["messages"]
    assert [message["content"] for message in sent[1:]] == ["go", "again"]


@needs_cases
@pytest.mark.parametrize("repeat", [True, False])
async def test_text_that_broke_off_is_never_doubled(repeat: bool, url: str) -> None:
    """B-019, B-128: either the failure, or another attempt that the log announces."""
    async with playing(url, "sc-reset-after-partial-then-ok", repeat=repeat) as harness:
        said = await harness.send("go")
        types = [event.type for event in harness.events]
    if repeat:
        assert said == CASES["sc-reset-after-partial-then-ok"]["expect"]["final_text"]
        assert types.count("llm/retry-started") == 1
    else:
        assert isinstance(harness.turn_end, Errored)
        assert harness.turn_end.failure.code == "TRANSPORT"
        assert len(await requests_to(url)) == 1


@needs_cases
@pytest.mark.parametrize("name", ["sc-parallel-one-raises", "sc-results-in-call-order"])
async def test_results_of_parallel_calls_go_back_in_order(name: str, url: str) -> None:
    """B-140, B-142: an error of one is the result of that one."""
    expect = CASES[name]["expect"]
    async with playing(url, name) as harness:
        assert await harness.send("go") == "fine"
        results = [event.view for event in harness.events if isinstance(event.view, ToolResult)]
    sent = json.loads((await requests_to(url))[1]["body"])["messages"]
    ids = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert ids == expect["second_request_results"]
    blocks = [result.message.content[0] for result in results]
    failed = {b.tool_call_id: b.is_error for b in blocks if isinstance(b, ToolResultBlock)}
    assert failed == expect.get("is_error", failed)


@needs_cases
async def test_thoughts_without_an_answer_end_the_turn(url: str) -> None:
    """B-093, M-068: an answer that says nothing is logged as one, and not asked for again."""
    async with playing(url, "oa-reasoning-only") as harness:
        assert await harness.send("go") == ""
        assert isinstance(harness.turn_end, Completed)
        [message] = [e.view for e in harness.events if isinstance(e.view, AssistantMessage)]
    assert [block.type for block in message.message.content] == ["reasoning"]
    assert len(await requests_to(url)) == 1


@needs_cases
async def test_thoughts_that_used_up_the_tokens_are_no_completed_turn(url: str) -> None:
    """B-094: the reason of the turn's end says that the ceiling was hit."""
    async with playing(url, "oa-reasoning-ate-budget") as harness:
        await harness.send("go")
        assert isinstance(harness.turn_end, MaxTokens)
    assert len(await requests_to(url)) == 1


@needs_cases
@pytest.mark.parametrize("name", ["an-empty-turn", "oa-tool-lone-surrogate", "oa-tool-malformed"])
async def test_the_conversation_goes_on_behind_an_odd_answer(name: str, url: str) -> None:
    """B-053, B-068, B-106: no empty message, no half character, and a result for each call."""
    async with playing(url, name) as harness:
        await harness.send("go")
        await harness.send("and now?")
    bodies = [json.loads(request["body"]) for request in await requests_to(url)]
    assert len(bodies) > 1
    for body in bodies:
        json.dumps(body, ensure_ascii=False).encode("utf-8")
        for message in body["messages"]:
            assert message["content"] or message.get("tool_calls")
        calls = [c["id"] for m in body["messages"] for c in m.get("tool_calls", ())]
        results = [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"]
        assert calls == results


@needs_cases
async def test_a_key_that_a_provider_repeats_gets_nowhere(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-125, B-271, M-012: neither into the error nor into the session or a log."""
    caplog.set_level(logging.DEBUG)
    async with playing(url, "http-401") as harness:
        await harness.send("go")
        assert isinstance(harness.turn_end, Errored)
        rows = [event_to_json(event) for event in harness.events]
    assert harness.turn_end.failure.code == "AUTH"
    assert len(await requests_to(url)) == 1
    texts = [harness.turn_end.failure.message, caplog.text, *map(str, rows)]
    assert not any("SECRET" in text for text in texts)


ADAPTERS = {"oa": "llm-openai", "ds": "llm-openai", "mi": "llm-openai", "an": "llm-anthropic"}
NOT_A_WIRE = {
    "rs": "the Responses API has no adapter",
    "go": "Google's own protocol has no adapter; its chat completions are llm-openai's",
    "mcp": "no MCP client yet",
    "cfg": "the loader",
    "ses": "sessions",
    "vec": "tables for other tests",
    "http": "both adapters",
    "sc": "here",
}


@needs_cases
def test_every_case_has_somebody_who_plays_it() -> None:
    prefixes = {case["name"].partition("-")[0] for case in fault_cases("")}
    assert prefixes == ADAPTERS.keys() | NOT_A_WIRE.keys()


@needs_cases
def test_every_scenario_is_played_or_belongs_elsewhere() -> None:
    played = {
        *ANSWERED,
        "sc-400-no-retry",
        "sc-reset-after-partial-then-ok",
        "sc-parallel-one-raises",
        "sc-results-in-call-order",
    }
    assert played | ELSEWHERE.keys() == CASES.keys()
