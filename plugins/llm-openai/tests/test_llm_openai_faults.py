"""The plugin against the fault cases kept beside the project, replayed over a real socket."""

import json
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
import pytest

from fault_cases import CODES, FINISHES, ReplayServers, fault_cases
from mounted_models import mounted_model
from terret_llm import (
    BlockEnd,
    GenerateOptions,
    ReasoningDelta,
    TextDelta,
    ToolCallBlock,
    UsageChunk,
    create_user_message,
)
from terret_plugin_llm_openai import llm_openai

mounted = partial(mounted_model, llm_openai)
CASES = fault_cases("oa-", "ds-", "mi-", "http-")
PLANS = [(case, plan) for case in CASES for plan in case["serve"]["plan"]]
needs_cases = pytest.mark.skipif(not CASES, reason="the fault cases are not here")


@pytest.fixture(scope="module")
def servers() -> Iterator[ReplayServers]:
    with ReplayServers() as servers:
        yield servers


async def replayed(url: str, **config: Any) -> list[Any]:
    settings = {"baseUrl": url, "apiKey": "sk-test-SECRET1234", "idleTimeout": 0.3, **config}
    chunks: list[Any] = []
    async with mounted(**settings) as llm:
        messages = (create_user_message("hi"),)
        options = GenerateOptions(provider="openai", model="m-test", messages=messages)
        with anyio.fail_after(20):
            async with aclosing(llm.stream(options)) as stream:
                chunks += [chunk async for chunk in stream]
    return chunks


@needs_cases
@pytest.mark.parametrize(
    ("case", "plan"), PLANS, ids=[f"{case['name']}-{plan}" for case, plan in PLANS]
)
async def test_a_fault_has_the_outcome_it_must_have(
    case: dict[str, Any], plan: str, servers: ReplayServers
) -> None:
    """All B rows with a file of one response: text before a failure, calls, usage, the code."""
    chunks = await replayed(
        f"{servers.url(plan)}/{case['name']}", inlineThink=case["name"] == "oa-think-split"
    )
    expect = case["expect"]
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    reasoning = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta))
    assert expect["text"] in ("*", text)
    assert reasoning == expect.get("reasoning", "")
    finish = chunks[-1].finish
    leaked = "leaked_markup" in expect
    assert finish.kind == ("leaked-tool-call" if leaked else FINISHES[expect["finish"]])
    if expect["error"] is None:
        check_answer(chunks, expect)
        assert finish.failure is None
    else:
        assert finish.failure.code in CODES[expect["error"]["class"]]
        assert "SECRET" not in finish.failure.message


def check_answer(chunks: list[Any], expect: dict[str, Any]) -> None:
    blocks = [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)]
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    assert len({call.id for call in calls}) == len(calls)
    wanted = expect["tool_calls"]
    assert [call.name for call in calls] == [each["name"] for each in wanted]
    for call, each in zip(calls, wanted, strict=True):
        assert each["id"] in ("*", call.id)
        if "args" in each:
            assert each["args"] in ("*", json.loads(call.arguments))
    if "usage" in expect:
        [usage] = [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)]
        assert usage.input_tokens + (usage.cache_read_tokens or 0) == expect["usage"]["in"]
        assert usage.output_tokens == expect["usage"]["out"]
        assert usage.cache_read_tokens == expect["usage"].get("cached")
