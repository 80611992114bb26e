import copy
from typing import Any

import pytest

from terret_llm import (
    Block,
    Message,
    ModelSource,
    PluginSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UnknownBlock,
    UnknownSource,
    UserSource,
    block_from_wire,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
    message_from_wire,
    replace_surrogates,
    source_from_wire,
)


class CountingCodec:
    def __init__(self, key: str) -> None:
        self.key = key
        self.calls = 0

    def encode_message(self, message: Message) -> bytes:
        self.calls += 1
        return f"{self.key}:{message.text}".encode()


def test_a_plain_string_becomes_one_text_block_of_a_person() -> None:
    message = create_user_message("hello")
    assert (message.role, message.content, message.source) == (
        "user",
        (TextBlock("hello"),),
        UserSource(),
    )
    assert message.id != create_user_message("hello").id


def test_constructors_fix_role_and_source_and_hold_their_own_tuple() -> None:
    """M-008: identity, role, source and call coupling come from the constructor."""
    blocks: list[Block] = [TextBlock("a"), ToolCallBlock("c1", "add", "{}")]
    answer = create_assistant_message(blocks, "openai", "gpt", replay_state={"response": 1})
    blocks.clear()
    result = create_tool_result_message("c1", "3", is_error=True)
    assert (answer.role, len(answer.content)) == ("assistant", 2)
    assert answer.source == ModelSource("openai", "gpt", {"response": 1})
    assert result.content == (ToolResultBlock("c1", (TextBlock("3"),), True),)
    assert (result.role, result.source) == ("user", ToolSource("c1"))


def test_text_joins_the_text_blocks_only() -> None:
    message = create_assistant_message(
        [TextBlock("a"), ReasoningBlock("x"), TextBlock("b"), ToolCallBlock("1", "t", "")], "p", "m"
    )
    assert message.text == "ab"
    assert [call.id for call in message.tool_calls] == ["1"]


def test_a_message_is_slotted() -> None:
    """M-010: no attribute can be added to a value of a declared type."""
    for value in (create_user_message("x"), TextBlock("x"), UserSource()):
        with pytest.raises(AttributeError):
            value.extra = 1  # type: ignore[union-attr]  # that is the point


@pytest.mark.parametrize(
    "source",
    [
        UserSource(),
        PluginSource("todo"),
        PluginSource("context", "snapshot", sections=("date", "cwd")),
        PluginSource("skills", "notice", summary="two skills"),
        ModelSource("p", "m"),
        ModelSource("p", "m", {"response": "r", "blocks": [1]}),
        ToolSource("c1"),
    ],
)
def test_a_message_survives_the_wire(source: Any) -> None:
    content = (TextBlock("t"), ReasoningBlock("r"), ToolCallBlock("i", "n", "{"))
    message = Message("m1", "assistant", (*content, ToolResultBlock("i", content)), source)
    assert message_from_wire(message.to_wire()) == message


def test_absent_fields_are_left_out_of_the_wire() -> None:
    assert create_user_message("x", PluginSource("p")).to_wire()["source"] == {
        "kind": "plugin",
        "plugin": "p",
    }
    assert ToolResultBlock("c", ()).to_wire() == {
        "type": "tool-result",
        "toolCallId": "c",
        "content": [],
    }


def test_unknown_blocks_and_sources_pass_through() -> None:
    image = {"type": "image", "attachment": {"id": "a1"}}
    robot = {"kind": "robot", "arm": 2}
    assert block_from_wire(image) == UnknownBlock("image", image)
    assert block_from_wire(image).to_wire() == image
    assert source_from_wire(robot) == UnknownSource("robot", robot)
    assert source_from_wire(robot).to_wire() == robot


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        ({"type": "text", "text": 1}, "'text' must be of type str"),
        ({"type": "text", "text": "a", "color": "red"}, "unknown keys: color"),
        ({"type": "tool-result", "toolCallId": "c", "content": "x"}, "must be a list of blocks"),
        ({"text": "a"}, "'type'"),
        ("text", "must be an object"),
    ],
)
def test_malformed_blocks_are_refused_by_place_and_key(wire: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        block_from_wire(wire)


def test_a_message_is_encoded_once_per_codec_key() -> None:
    """M-037: equal keys share the kept bytes, other keys have their own."""
    message = create_user_message("hi")
    first, twin, other = CountingCodec("a"), CountingCodec("a"), CountingCodec("b")
    assert message.encoded(first) is message.encoded(twin)
    assert message.encoded(other) == b"b:hi"
    assert (first.calls, twin.calls, other.calls) == (1, 0, 1)


def test_kept_bytes_do_not_take_part_in_equality() -> None:
    message = create_user_message("hi")
    before = copy.copy(message)
    message.encoded(CountingCodec("a"))
    assert message == before
    assert hash(message) == hash(before)


def test_a_message_without_replay_state_keeps_its_model_and_is_made_once() -> None:
    """M-029: provider and model stay, the original is unchanged."""
    message = create_assistant_message("x", "p", "m", replay_state={"response": 1})
    stateless = message.without_replay_state()
    assert stateless.source == ModelSource("p", "m")
    assert (stateless.id, stateless.content) == (message.id, message.content)
    assert message.without_replay_state() is stateless
    assert message.source == ModelSource("p", "m", {"response": 1})
    assert stateless.without_replay_state() is stateless


def test_lone_surrogates_are_refused_from_people_and_replaced_elsewhere() -> None:
    """B-068: such text could never be written as JSON again."""
    with pytest.raises(ValueError, match=r"U\+D99C, at position 1"):
        create_user_message("a\ud99c")
    assert replace_surrogates("a\ud99c é 🌍") == "a\ufffd é 🌍"
