"""A conversation on the wire: encoded once, extended from request to request, and repaired."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    GenerateOptions,
    Message,
    ModelSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_llm.chat import ChatCodec, ChatDialect
from terret_llm.wire import call_ids_of, fitting_id


def body(codec: ChatCodec, *messages: Message) -> bytes:
    return codec.encode_request(GenerateOptions(provider="p", model="m", messages=messages))


def sent(*messages: Message) -> list[Any]:
    found = json.loads(body(ChatCodec(), *messages))["messages"]
    assert isinstance(found, list)
    return found


def calling(*ids: str) -> Message:
    return create_assistant_message([ToolCallBlock(id, "f", "{}") for id in ids], "p", "m")


def test_a_call_that_was_never_answered_gets_an_error_result() -> None:
    """B-105: a conversation that was cut between call and result is accepted again."""
    history = [calling("a", "b"), create_tool_result_message("a", "1"), create_user_message("go")]
    roles = [(m["role"], m.get("tool_call_id")) for m in sent(*history)]
    assert roles == [("assistant", None), ("tool", "a"), ("tool", "b"), ("user", None)]
    assert "interrupted" in sent(*history)[2]["content"]


def test_an_open_call_at_the_end_is_closed_for_this_request_only() -> None:
    """B-105: its result may still come, and then takes its place."""
    codec, call = ChatCodec(), calling("a")
    result = create_tool_result_message("a", "1")
    assert b"interrupted" in body(codec, call)
    assert json.loads(body(codec, call, result))["messages"][1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "1"}
    ]


def test_a_result_without_a_call_is_left_out() -> None:
    """B-105: also a second result of the same call; what stands beside it is kept."""
    orphan = ToolResultBlock("gone", (TextBlock("9"),))
    mixed = Message("i", "user", (orphan, TextBlock("and?")), create_user_message("x").source)
    result = create_tool_result_message("a", "1")
    history = [create_tool_result_message("gone", "9"), mixed, calling("a"), result, result]
    assert [m["role"] for m in sent(*history)] == ["user", "assistant", "tool"]
    assert sent(*history)[0]["content"] == "and?"


def test_calls_of_two_turns_may_have_one_id() -> None:
    """B-062: results belong to the calls in front of them."""
    turn = [calling("x"), create_tool_result_message("x", "1")]
    again = [calling("x"), create_tool_result_message("x", "2")]
    assert [m.get("content") for m in sent(*turn, *again)] == ["", "1", "", "2"]


class Counting(ChatDialect):
    """A dialect is asked for the id of each call and result that is encoded."""

    asked: int = 0

    def call_id(self, id: str) -> str:
        Counting.asked += 1
        return id


def test_a_request_encodes_what_is_new_since_the_last_one() -> None:
    """M-037: also when the list is another object, as it is for each request of a loop."""
    codec = ChatCodec(Counting())
    history: list[Message] = []
    for number in range(20):
        history += [calling(f"c{number}"), create_tool_result_message(f"c{number}", "1")]
        Counting.asked = 0
        body(codec, *history)
        assert Counting.asked == 2


def test_a_replaced_message_is_replaced_in_the_next_request() -> None:
    """M-037: a rewritten history of the same length is not taken for the old one."""
    codec = ChatCodec()
    first, old, last = (create_user_message(text) for text in ("a", "b", "c"))
    body(codec, first, old, last)
    changed = create_user_message("B")
    assert [m["content"] for m in json.loads(body(codec, first, changed, last))["messages"]] == [
        "a",
        "B",
        "c",
    ]


def test_an_excerpt_does_not_cost_the_conversation_what_it_has() -> None:
    """M-037: a title is made of the first messages, beside the conversation."""
    codec = ChatCodec(Counting())
    history = [calling("a"), create_tool_result_message("a", "1"), calling("b")]
    body(codec, *history)
    body(codec, *history[:2])
    Counting.asked = 0
    body(codec, *history, create_tool_result_message("b", "1"))
    assert Counting.asked == 1


def test_a_long_conversation_is_extended_step_by_step() -> None:
    """M-037: parts that were put together long ago are the same bytes, also behind an open call."""
    codec = ChatCodec()
    history: list[Message] = []
    for number in range(120):
        call, result = calling(f"c{number}"), create_tool_result_message(f"c{number}", "1")
        history += [create_user_message(str(number)), call]
        assert body(codec, *history) == body(ChatCodec(), *copies(history))
        history.append(result)
        assert body(codec, *history) == body(ChatCodec(), *copies(history))


def copies(history: list[Message]) -> list[Message]:
    return [Message(m.id, m.role, m.content, m.source) for m in history]


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ids = st.sampled_from("abc")
blocks = st.lists(
    st.builds(TextBlock, words)
    | st.builds(ReasoningBlock, words)
    | st.builds(ToolCallBlock, ids, words, words)
    | st.builds(lambda id, text: ToolResultBlock(id, (TextBlock(text),)), ids, words),
    max_size=4,
).map(tuple)
messages = st.builds(
    lambda role, content: Message("i", role, content, ModelSource("p", "m")),
    st.sampled_from(["user", "assistant", "system"]),
    blocks,
)
dialects = st.builds(
    ChatDialect,
    replay_reasoning=st.sampled_from([None, "reasoning_content"]),
    empty_content=st.sampled_from(["empty", "null", "absent"]),
    call_ids=st.sampled_from(["any", "nine"]),
)


@given(st.lists(messages), dialects, st.data())
def test_kept_bytes_are_the_bytes_of_encoding_everything_anew(
    history: list[Message], dialect: ChatDialect, data: st.DataObject
) -> None:
    """M-037: whatever was sent before, and whatever was replaced since."""
    codec = ChatCodec(dialect)
    for replaces in data.draw(st.lists(st.booleans(), max_size=3)):
        body(codec, *history[: data.draw(st.integers(0, len(history)))])
        if history and replaces:
            history[data.draw(st.integers(0, len(history) - 1))] = data.draw(messages)
    encoded = body(codec, *history)
    assert encoded == body(ChatCodec(dialect), *copies(history))
    check_pairs(json.loads(encoded)["messages"])


def check_pairs(wire: list[Any]) -> None:
    """Each call has exactly one result, behind it, and each result a call."""
    open_ids: list[str] = []
    for message in wire:
        if message["role"] == "tool":
            open_ids.remove(message["tool_call_id"])
        else:
            assert message["role"] == "system" or not open_ids
            open_ids += [call["id"] for call in message.get("tool_calls", ())]
    assert not open_ids


@pytest.mark.parametrize("rule", ["short", "nine"])
def test_an_id_that_a_server_refuses_is_replaced_in_call_and_result(rule: Any) -> None:
    """B-064: a conversation can move to a provider with other ideas of an id."""
    long = "functions.get_weather:0" * 9
    history = [calling(long, "Abc123xyz"), *map(result_of, (long, "Abc123xyz"))]
    wire = json.loads(body(ChatCodec(ChatDialect(call_ids=rule)), *history))["messages"]
    called = [call["id"] for call in wire[0]["tool_calls"]]
    assert called == [message["tool_call_id"] for message in wire[1:]]
    assert called[1] == "Abc123xyz"
    assert called[0].isalnum()
    assert len(called[0]) == {"short": 24, "nine": 9}[rule]


def result_of(id: str) -> Message:
    return create_tool_result_message(id, "1")


def test_replaced_ids_are_stable_and_differ() -> None:
    """B-064: the same id gives the same one in every process."""
    import re

    nothing = re.compile("(?!)")
    assert fitting_id("a", nothing, length=9) == fitting_id("a", nothing, length=9)
    assert len({fitting_id(str(n), nothing, length=9) for n in range(1000)}) == 1000


def test_the_ids_of_a_conversation_are_known_also_after_it_went_on() -> None:
    """B-062: servers that count their calls begin at 0 in each answer."""
    first, second = calling("x:0"), calling("y:0")
    assert call_ids_of([first])("x:0")
    is_used = call_ids_of([first, second])
    assert [is_used(id) for id in ("x:0", "y:0", "z:0")] == [True, True, False]
    assert not call_ids_of([])("x:0")
