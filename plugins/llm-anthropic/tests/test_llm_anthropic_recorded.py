"""The decoder on recorded exchanges and on the fault cases, however they are cut."""

import hashlib
import json
from typing import Any

import pytest

from fault_cases import FAULTS, FINISHES, RECORDED, cuts, fault_cases, pieces, recorded_exchanges
from terret_llm import (
    BlockAssembler,
    Chunk,
    Finish,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    UnknownBlock,
    create_assistant_message,
)
from terret_llm.wire import AnswerStream
from terret_plugin_llm_anthropic._decoding import MessagesDecoder
from terret_plugin_llm_anthropic._encoding import MessagesCodec

EXCHANGES = recorded_exchanges("anthropic")
CASES = [case for case in fault_cases("an-") if case["serve"]["end"] == "eof"]
REASONS = {"end_turn": "stop", "tool_use": "tool-calls", "pause_turn": "pause"}


def decoded(body: bytes, at: list[int]) -> list[Chunk]:
    stream = AnswerStream(MessagesDecoder())
    chunks: list[Chunk] = []
    for piece in pieces(body, at):
        chunks += stream.feed(piece)
    return chunks + stream.close()


def assembled(chunks: list[Chunk]) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.push(chunk)
    return assembler


def texts(assembler: BlockAssembler, kind: type[TextBlock] | type[ReasoningBlock]) -> str:
    return "".join(block.text for block in assembler.blocks() if isinstance(block, kind))


def calls(assembler: BlockAssembler) -> list[tuple[str, str, Any]]:
    return [
        (block.id, block.name, json.loads(block.arguments))
        for block in assembler.blocks()
        if isinstance(block, ToolCallBlock)
    ]


@pytest.mark.skipif(not EXCHANGES, reason="the recorded exchanges are not here")
@pytest.mark.parametrize("row", EXCHANGES, ids=[row["response"].split("/")[1] for row in EXCHANGES])
def test_a_recorded_answer_gives_what_was_answered(row: dict[str, Any]) -> None:
    """B-004, B-006, B-107, B-110: whole, byte by byte, in characters, between CR and LF."""
    body, expect = (RECORDED / row["response"]).read_bytes(), row["expect"]
    chunks = decoded(body, [])
    answer = assembled(chunks)
    assert texts(answer, TextBlock) == expect["text"]
    reasoning = texts(answer, ReasoningBlock)
    assert len(reasoning) == expect["reasoning_chars"]
    assert hashlib.sha256(reasoning.encode()).hexdigest()[:12] == expect["reasoning_sha"]
    wanted = [(call["id"], call["name"], call["args"]) for call in expect["tool_calls"]]
    assert calls(answer) == wanted
    assert answer.finish.kind == REASONS[expect["finish"]]
    assert answer.usage is not None
    assert answer.usage.input_tokens == expect["usage_in"]
    assert answer.usage.output_tokens == expect["usage_out"]
    with_crlf = body.replace(b"\n", b"\r\n")
    for whole in (body, with_crlf):
        for name, at in cuts(whole).items():
            if name != "bytes" or len(body) < 20_000:
                assert decoded(whole, at) == chunks


@pytest.mark.skipif(not EXCHANGES, reason="the recorded exchanges are not here")
@pytest.mark.parametrize("row", EXCHANGES, ids=[row["response"].split("/")[1] for row in EXCHANGES])
def test_a_recorded_answer_goes_back_as_it_came(row: dict[str, Any]) -> None:
    """B-087, B-102: signatures, redacted thoughts and the provider's own blocks, in order."""
    body = (RECORDED / row["response"]).read_bytes()
    answer = assembled(decoded(body, []))
    message = create_assistant_message(
        answer.blocks(), "anthropic", "m", replay_state=answer.replay_state
    )
    sent = json.loads(b"[" + MessagesCodec().encode_message(message) + b"]")
    assert sent == [block for block in folded(body) if block.get("text", "-").strip()]


def folded(body: bytes) -> list[dict[str, Any]]:
    """The content that the provider sent, put together in the plainest way."""
    blocks: list[dict[str, Any]] = []
    for line in body.split(b"\n"):
        event = json.loads(line[5:]) if line.startswith(b"data:") else {}
        if event.get("type") == "content_block_start":
            blocks.append(event["content_block"] | {"json": ""})
        delta = event.get("delta", {})
        block = blocks[-1] if blocks else {}
        match delta.get("type"):
            case "text_delta":
                block["text"] += delta["text"]
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                block["signature"] += delta["signature"]
            case "input_json_delta":
                block["json"] += delta["partial_json"]
            case "citations_delta":
                block["citations"] = [*block.get("citations", []), delta["citation"]]
            case "compaction_delta":
                block["content"] = delta["content"]
    for block in blocks:
        text = block.pop("json")
        if text:
            block["input"] = json.loads(text)
        if block.get("citations") == []:
            del block["citations"]
        if block["type"] == "tool_use":
            block.pop("caller", None)
    return blocks


@pytest.mark.skipif(not CASES, reason="the fault cases are not here")
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_fault_has_its_outcome_wherever_it_is_cut(case: dict[str, Any]) -> None:
    """B-087 and the rows of area anthropic and usage: one cut at every byte."""
    body, expect = (FAULTS / case["file"]).read_bytes(), case["expect"]
    chunks = decoded(body, [])
    answer = assembled(chunks)
    assert answer.finish.kind == FINISHES[expect["finish"]]
    if not answer.finish.failed:
        assert texts(answer, TextBlock) == expect["text"]
        assert texts(answer, ReasoningBlock) == expect.get("reasoning", "")
    for cut in range(len(body)):
        assert decoded(body, [cut]) == chunks


def test_blocks_of_the_provider_are_kept_and_are_nobody_elses() -> None:
    """B-102: they are replayed by the provider that made them, and skipped by the others."""
    if not EXCHANGES:
        pytest.skip("the recorded exchanges are not here")
    name = "anthropic/test_anthropic_code_execution_tool_stream.0.response.sse"
    answer = assembled(decoded((RECORDED / name).read_bytes(), []))
    kinds = [type(block) for block in answer.blocks()]
    assert kinds == [ReasoningBlock, TextBlock, UnknownBlock, UnknownBlock, TextBlock]
    foreign = create_assistant_message(answer.blocks(), "other", "m")
    sent = json.loads(b"[" + MessagesCodec().encode_message(foreign) + b"]")
    assert [block["type"] for block in sent] == ["text", "text"]
    assert answer.finish == Finish("stop", None, answer.replay_state)
