import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishChunk,
    GenerateOptions,
    LlmCallConfig,
    LlmFailure,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallDelta,
    ToolSchema,
    Usage,
    UsageChunk,
    call_config_from_wire,
    chunk_from_wire,
    chunk_json,
    create_user_message,
    is_loop_request,
    mark_loop_request,
    tool_schema_from_wire,
)

FAILURE = LlmFailure("busy", "RATE_LIMIT", 429, 1500, "req-1")
texts = st.text(st.characters(exclude_categories=["Cs"]))
indexes = st.integers(0, 9)
chunks: st.SearchStrategy[Chunk] = st.one_of(
    st.builds(BlockStart, indexes, texts),
    st.builds(TextDelta, indexes, texts),
    st.builds(ReasoningDelta, indexes, texts),
    st.builds(ToolCallDelta, indexes, texts, st.none() | texts, texts),
    st.builds(BlockEnd, indexes, st.builds(TextBlock, texts)),
    st.just(UsageChunk(Usage(1, 2))),
    st.just(UsageChunk(Usage(1, 2, 3, 4, 5))),
    st.just(FinishChunk(Finish.stop(replay_state={"response": [1]}))),
    st.just(FinishChunk(Finish.error(FAILURE))),
)


@given(chunks)
def test_a_chunk_survives_the_wire_and_its_text_is_that_of_its_wire_form(chunk: Chunk) -> None:
    assert chunk_from_wire(chunk.to_wire()) == chunk
    assert json.loads(chunk_json(chunk)) == chunk.to_wire()


def test_the_wire_keys_are_those_of_the_log() -> None:
    assert chunk_json(ToolCallDelta(1, "c", None, "{")) == (
        '{"type":"tool-call-delta","index":1,"id":"c","argumentsDelta":"{"}'
    )
    assert FinishChunk(Finish.aborted(FAILURE)).to_wire() == {
        "type": "finish",
        "reason": {
            "kind": "aborted",
            "failure": {
                "message": "busy",
                "code": "RATE_LIMIT",
                "status": 429,
                "providerRetryAfterMs": 1500,
                "requestId": "req-1",
            },
        },
    }
    assert UsageChunk(Usage(1, 2, cache_read_tokens=3)).to_wire()["usage"] == {
        "inputTokens": 1,
        "outputTokens": 2,
        "cacheReadTokens": 3,
    }


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        ({"type": "sparkle"}, "unknown type 'sparkle'"),
        ({"type": "text-delta", "index": True, "text": "a"}, "'index'"),
        ({"type": "text-delta", "index": 0, "text": "a", "x": 1}, "unknown keys: x"),
        ({"type": "finish", "reason": {"kind": "error"}}, "'failure' belongs to error"),
        ({"type": "usage", "usage": {"inputTokens": 1}}, "'outputTokens'"),
    ],
)
def test_malformed_chunks_are_refused(wire: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        chunk_from_wire(wire)


def test_an_unknown_finish_kind_is_kept_and_is_no_failure() -> None:
    chunk = chunk_from_wire({"type": "finish", "reason": {"kind": "content-filter"}})
    assert chunk == FinishChunk(Finish("content-filter"))
    assert not Finish("content-filter").failed
    assert Finish.error(FAILURE).failed
    assert Finish.aborted(FAILURE).failed


def test_call_configs_are_equal_if_every_field_is() -> None:
    """M-009: the stop list counts element by element."""
    config = LlmCallConfig(provider="p", model="m", temperature=0.5, stop=("a", "b"))
    assert config == LlmCallConfig(provider="p", model="m", temperature=0.5, stop=("a", "b"))
    assert config != LlmCallConfig(provider="p", model="m", temperature=0.5, stop=("b", "a"))
    assert config != LlmCallConfig(provider="p", model="m", temperature=0.5, max_tokens=1)


@pytest.mark.parametrize(
    "config",
    [
        LlmCallConfig(),
        LlmCallConfig(provider="p", model="m", reasoning_effort="high", temperature=0, stop=("x",)),
        LlmCallConfig(provider="p", max_tokens=5),
    ],
)
def test_a_call_config_survives_the_wire_without_what_is_not_chosen(config: LlmCallConfig) -> None:
    wire = config.to_wire()
    assert call_config_from_wire(wire) == config
    assert None not in wire.values()
    assert "" not in wire.values()


def test_a_tool_schema_survives_the_wire() -> None:
    schema = ToolSchema("add", "Add.", {"type": "object", "properties": {}})
    assert tool_schema_from_wire(schema.to_wire()) == schema


def test_the_loop_mark_belongs_to_one_object() -> None:
    """M-011: an equal request and a copy are not marked."""
    import copy
    import dataclasses

    request = GenerateOptions(provider="p", model="m", messages=(create_user_message("x"),))
    assert mark_loop_request(request) is request
    assert is_loop_request(request)
    assert not is_loop_request(dataclasses.replace(request))
    assert not is_loop_request(copy.copy(request))


def test_a_request_is_frozen_and_knows_its_config() -> None:
    request = GenerateOptions(provider="p", model="m", messages=(), max_tokens=7, system="s")
    assert request.config == LlmCallConfig(provider="p", model="m", max_tokens=7)
    with pytest.raises(AttributeError):
        request.model = "other"  # type: ignore[misc]  # that is the point
