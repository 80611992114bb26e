"""The codec on recorded and on deliberately broken streams, which are kept beside the project."""

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from fault_cases import (
    FAULTS,
    RECORDED,
    cuts,
    fault_cases,
    pieces,
    recorded_exchanges,
    rows,
)
from terret_llm import (
    BlockAssembler,
    Chunk,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    UsageChunk,
)
from terret_llm.chat import ChatDecoder
from terret_llm.wire import AnswerStream

FINISHES = {"stop": "stop", "tool_calls": "tool-calls", "length": "max-tokens"}
EXCHANGES = recorded_exchanges("chat")
CASES = [row for row in fault_cases("oa-", "ds-", "mi-") if row["serve"]["end"] == "eof"]
needs_recordings = pytest.mark.skipif(not EXCHANGES, reason="the recorded streams are not here")
needs_cases = pytest.mark.skipif(not CASES, reason="the fault cases are not here")


def decoded(body: bytes, at: list[int], **options: Any) -> list[Chunk]:
    ids = itertools.count()
    stream = AnswerStream(ChatDecoder(new_call_id=lambda: f"call_{next(ids)}", **options))
    chunks: list[Chunk] = []
    for piece in pieces(body, at):
        chunks += stream.feed(piece)
    return chunks + stream.close()


def parts(chunks: list[Chunk]) -> tuple[str, str, list[ToolCallBlock], str]:
    assembler = BlockAssembler()
    for chunk in chunks:
        if chunk.type != "finish":
            assembler.push(chunk)
    blocks = assembler.blocks()
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    reasoning = "".join(block.text for block in blocks if isinstance(block, ReasoningBlock))
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    assembler.push(chunks[-1])
    return text, reasoning, calls, assembler.finish.kind


@needs_recordings
@pytest.mark.parametrize("row", EXCHANGES, ids=lambda row: Path(row["response"]).name)
def test_a_recorded_stream_gives_what_was_answered(row: dict[str, Any]) -> None:
    """B-004, B-006, B-040: whole, byte by byte, inside characters, between CR and LF."""
    body, expect = (RECORDED / row["response"]).read_bytes(), row["expect"]
    chunks = decoded(body, [])
    text, reasoning, calls, finish = parts(chunks)
    assert text == expect["text"]
    assert len(reasoning) == expect["reasoning_chars"]
    assert hashlib.sha256(reasoning.encode()).hexdigest()[:12] == expect["reasoning_sha"]
    assert [(c.id, c.name, json.loads(c.arguments)) for c in calls] == [
        (call["id"], call["name"], call["args"]) for call in expect["tool_calls"]
    ]
    assert finish == FINISHES[expect["finish"]]
    [usage] = [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)]
    assert usage.input_tokens + (usage.cache_read_tokens or 0) == expect["usage_in"]
    assert usage.output_tokens == expect["usage_out"]
    for whole in (body, body.replace(b"\n", b"\r\n")):
        for at in cuts(whole).values():
            assert decoded(whole, at) == chunks


@needs_cases
@pytest.mark.parametrize("row", CASES, ids=lambda row: str(row["name"]))
def test_a_fault_in_the_stream_has_the_outcome_it_must_have(row: dict[str, Any]) -> None:
    """The B rows of framing, stream end, chunk shape, usage, tool calls and finish reason."""
    body, expect = (FAULTS / row["file"]).read_bytes(), row["expect"]
    options = {"inline_think": row["name"] == "oa-think-split"}
    chunks = decoded(body, [], **options)
    text, reasoning, calls, finish = parts(chunks)
    assert expect["text"] in ("*", text)
    assert reasoning == expect.get("reasoning", "")
    failed = {"error": "error", "incomplete": "error", "content_filter": "content-filter"}
    wanted = "leaked-tool-call" if "leaked_markup" in expect else expect["finish"]
    assert finish == (FINISHES | failed).get(wanted, wanted)
    if finish != "error":
        check_calls(calls, expect["tool_calls"])
    for cut in range(len(body)):
        assert decoded(body, [cut], **options) == chunks


def check_calls(calls: list[ToolCallBlock], expected: list[dict[str, Any]]) -> None:
    assert len({call.id for call in calls}) == len(calls) == len(expected)
    for call, wanted in zip(calls, expected, strict=True):
        assert wanted["id"] in ("*", call.id)
        assert call.name == wanted["name"]
        if "args" in wanted:
            arguments = json.loads(call.arguments)
            arguments_text = json.dumps(arguments, ensure_ascii=False).encode()  # no surrogates
            assert wanted["args"] in ("*", json.loads(arguments_text))
        elif isinstance(wanted["invalid_args"], str):
            assert call.arguments == wanted["invalid_args"]


@needs_recordings
def test_every_recorded_exchange_is_folded_somewhere() -> None:
    """Streams of the Responses API are not: there is no adapter for it."""
    expected = {row["response"] for row in rows(RECORDED / "expect.jsonl")}
    recorded = {row["response"] for row in rows(RECORDED / "manifest.jsonl")}
    whole = {name for name in recorded if name.endswith(".json")}  # test_llm_chat_dialects
    assert recorded - expected == whole
    dialects = {row["dialect"] for row in rows(RECORDED / "expect.jsonl")}
    assert dialects == {"chat", "anthropic", "responses"}
