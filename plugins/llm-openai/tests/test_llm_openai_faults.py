"""The plugin against the fault cases kept beside the project, replayed over a real socket."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from terret_context import Container
from terret_llm import (
    BlockEnd,
    GenerateOptions,
    Llm,
    ReasoningDelta,
    TextDelta,
    ToolCallBlock,
    UsageChunk,
    create_user_message,
)
from terret_plugin_llm_openai import llm_openai

FAULTS = Path(__file__).parents[4] / "shared" / "data" / "faults"
INDEX = FAULTS / "cases" / "index.jsonl"
CASES = [
    case
    for line in (INDEX.read_text("utf-8").split("\n") if INDEX.exists() else [])
    if line and (case := json.loads(line))["name"].startswith(("oa-", "ds-", "mi-", "http-"))
]
CODES = {
    "transport": {"TRANSPORT"},
    "timeout": {"TIMEOUT"},
    "incomplete": {"STREAM_CLOSED", "EMPTY_RESPONSE"},
    "protocol": {"MALFORMED_RESPONSE"},
    "provider": {"SERVER"},
    "overloaded": {"SERVER"},
    "auth": {"AUTH"},
    "invalid_request": {"INVALID_REQUEST"},
}
FINISHES = {
    "stop": "stop",
    "tool_calls": "tool-calls",
    "length": "max-tokens",
    "content_filter": "content-filter",
    "error": "error",
    "incomplete": "error",
}
needs_cases = pytest.mark.skipif(not CASES, reason="the fault cases are not here")


@pytest.fixture(scope="module", params=[None, "bytewise"])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The replay server in a process of its own; the body comes whole, or byte by byte."""
    plan = ["--plan", request.param] if request.param else []
    command = [sys.executable, str(FAULTS / "replay.py"), "--port", "0", *plan]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().rstrip().rstrip(")").rsplit(",", 1)[1]
            yield f"http://127.0.0.1:{int(port)}"
        finally:
            process.kill()


async def replayed(url: str, **config: Any) -> list[Any]:
    async with Container() as root:
        await root.plugin(Llm).ready()
        settings = {"baseUrl": url, "apiKey": "sk-test-SECRET1234", "idleTimeout": 0.5, **config}
        await root.plugin(llm_openai, settings).ready()
        messages = (create_user_message("hi"),)
        options = GenerateOptions(provider="openai", model="m-test", messages=messages)
        with anyio.fail_after(20):
            async with aclosing(root[Llm].stream(options)) as chunks:
                return [chunk async for chunk in chunks]


@needs_cases
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
async def test_a_fault_has_the_outcome_it_must_have(case: dict[str, Any], server_url: str) -> None:
    """All B rows with a file of one response: text before a failure, calls, usage, the code."""
    chunks = await replayed(
        f"{server_url}/{case['name']}", inlineThink=case["name"] == "oa-think-split"
    )
    expect = case["expect"]
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    reasoning = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta))
    assert expect["text"] in ("*", text)
    assert reasoning == expect.get("reasoning", "")
    finish = chunks[-1].finish
    assert finish.kind == FINISHES[expect["finish"]]
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
