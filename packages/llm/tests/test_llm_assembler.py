from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    BlockAssembler,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishChunk,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    UnknownBlock,
    Usage,
    UsageChunk,
)


def assembled(*chunks: Chunk) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.push(chunk)
    return assembler


def test_interleaved_deltas_assemble_in_first_seen_order() -> None:
    """M-001: the order is that of the first chunk of each index, not of the numbers."""
    assembler = assembled(
        ReasoningDelta(2, "think"),
        TextDelta(0, "a"),
        ToolCallDelta(1, "c1", "add", '{"x"'),
        TextDelta(0, "b"),
        ToolCallDelta(1, "c1", None, ":1}"),
        ReasoningDelta(2, "ing"),
    )
    assert assembler.blocks() == (
        ReasoningBlock("thinking"),
        TextBlock("ab"),
        ToolCallBlock("c1", "add", '{"x":1}'),
    )


def test_the_first_end_wins_and_closes_its_index() -> None:
    """M-002: stragglers, second ends and second starts are ignored."""
    assembler = assembled(
        BlockStart(0, "text"),
        TextDelta(0, "draft"),
        BlockEnd(0, TextBlock("final")),
        TextDelta(0, "late"),
        BlockStart(0, "reasoning"),
        BlockEnd(0, TextBlock("second")),
    )
    assert assembler.blocks() == (TextBlock("final"),)


def test_missing_starts_ends_and_tool_ids_are_inferred() -> None:
    """M-003: a tool call without id is named after its index."""
    assembler = assembled(ToolCallDelta(3, "", "add", "{}"), TextDelta(4, "x"))
    assert assembler.blocks() == (ToolCallBlock("call-3", "add", "{}"), TextBlock("x"))


def test_unknown_chunks_and_open_blocks_of_unknown_type_raise() -> None:
    """M-003: what cannot be assembled is an error, not a gap."""
    with pytest.raises(ValueError, match="unknown type str"):
        assembled(cast("Any", "text"))
    with pytest.raises(ValueError, match="'image' was never ended"):
        assembled(BlockStart(0, "image")).blocks()
    image = UnknownBlock("image", {"type": "image"})
    assert assembled(BlockStart(0, "image"), BlockEnd(0, image)).blocks() == (image,)


def test_usage_is_the_latest_and_finish_defaults_to_stop() -> None:
    """M-004: both reflect the last chunk of their kind."""
    assert assembled().usage is None
    assert assembled().finish == Finish.stop()
    assembler = assembled(
        UsageChunk(Usage(1, 1)), UsageChunk(Usage(1, 9)), FinishChunk(Finish.tool_calls())
    )
    assert assembler.usage == Usage(1, 9)
    assert assembler.finish == Finish.tool_calls()


def test_max_tokens_drops_tool_calls_and_their_replay_entries() -> None:
    """M-006: a cut call must not run, and its state goes with it."""
    state = {"response": "r", "blocks": ["text", "call"]}
    assembler = assembled(
        TextDelta(0, "a"),
        ToolCallDelta(1, "c", "add", "{"),
        FinishChunk(Finish.max_tokens(replay_state=state)),
    )
    assert assembler.blocks() == (TextBlock("a"),)
    assert assembler.replay_state == {"response": "r", "blocks": ["text"]}


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ({"response": "r", "blocks": []}, None),
        ({"response": "r", "blocks": "x"}, None),
        ({"response": "r"}, {"response": "r"}),
        (None, None),
    ],
)
def test_replay_state_must_fit_the_blocks(state: Any, kept: Any) -> None:
    """M-006: misaligned state is dropped, state without entries per block is kept."""
    assert assembled(
        TextDelta(0, "a"), FinishChunk(Finish.stop(replay_state=state))
    ).replay_state == (kept)


def test_interrupted_blocks_are_visible_text_and_reasoning_in_order() -> None:
    """M-007: tool calls and blanks are dropped; open and closed blocks count alike."""
    assembler = assembled(
        ReasoningDelta(0, "hm"),
        BlockEnd(0, ReasoningBlock("hm")),
        TextDelta(1, " \n"),
        ToolCallDelta(2, "c", "add", "{}"),
        TextDelta(3, "par"),
    )
    assert assembler.interrupted_blocks() == (ReasoningBlock("hm"), TextBlock("par"))


deltas = st.builds(TextDelta, st.integers(0, 4), st.text()) | st.builds(
    ToolCallDelta, st.integers(5, 9), st.text(), st.text(), st.text()
)


@given(st.lists(deltas))
def test_assembling_again_gives_the_same_blocks_one_per_index(chunks: list[Chunk]) -> None:
    """M-005: reading is repeatable, and memory is bounded by the distinct indexes."""
    assembler = assembled(*chunks)
    blocks = assembler.blocks()
    assert assembler.blocks() == blocks
    assert len(blocks) == len({getattr(chunk, "index", None) for chunk in chunks})
