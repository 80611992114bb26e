"""The codec on recorded and on deliberately broken streams, which are kept beside the project."""

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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

DATA = Path(__file__).parents[4] / "shared" / "data"
FINISHES = {"stop": "stop", "tool_calls": "tool-calls", "length": "max-tokens"}


def rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


RECORDED = [row for row in rows(DATA / "recorded" / "expect.jsonl") if row["dialect"] == "chat"]
CASES = [
    row
    for row in rows(DATA / "faults" / "cases" / "index.jsonl")
    if row["name"].startswith(("oa-", "ds-", "mi-")) and row["serve"]["end"] == "eof"
]
needs_recordings = pytest.mark.skipif(not RECORDED, reason="the recorded streams are not here")
needs_cases = pytest.mark.skipif(not CASES, reason="the fault cases are not here")


def decoded(body: bytes, cuts: Iterator[int], **options: Any) -> list[Chunk]:
    ids = itertools.count()
    stream = AnswerStream(ChatDecoder(new_call_id=lambda: f"call_{next(ids)}", **options))
    chunks: list[Chunk] = []
    start = 0
    for cut in itertools.chain(cuts, [len(body)]):
        chunks += stream.feed(body[start:cut])
        start = cut
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
@pytest.mark.parametrize("row", RECORDED, ids=lambda row: Path(row["response"]).name)
def test_a_recorded_stream_gives_what_was_answered(row: dict[str, Any]) -> None:
    """B-004, B-006, B-040: whole, byte by byte, and in pieces of seven."""
    body, expect = (DATA / "recorded" / row["response"]).read_bytes(), row["expect"]
    chunks = decoded(body, iter(()))
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
    for step in (1, 7):
        assert decoded(body, iter(range(step, len(body), step))) == chunks


@needs_cases
@pytest.mark.parametrize("row", CASES, ids=lambda row: str(row["name"]))
def test_a_fault_in_the_stream_has_the_outcome_it_must_have(row: dict[str, Any]) -> None:
    """The B rows of framing, stream end, chunk shape, usage, tool calls and finish reason."""
    body, expect = (DATA / "faults" / row["file"]).read_bytes(), row["expect"]
    options = {"inline_think": row["name"] == "oa-think-split"}
    chunks = decoded(body, iter(()), **options)
    text, reasoning, calls, finish = parts(chunks)
    assert expect["text"] in ("*", text)
    assert reasoning == expect.get("reasoning", "")
    failed = {"error": "error", "incomplete": "error", "content_filter": "content-filter"}
    wanted = "leaked-tool-call" if "leaked_markup" in expect else expect["finish"]
    assert finish == (FINISHES | failed).get(wanted, wanted)
    if finish != "error":
        check_calls(calls, expect["tool_calls"])
    for cut in range(len(body)):
        assert decoded(body, iter((cut,)), **options) == chunks


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
