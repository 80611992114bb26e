import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    Block,
    GenerateOptions,
    Message,
    ModelSource,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
    UnknownBlock,
    UserSource,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_llm_anthropic import AnthropicConfig
from terret_plugin_llm_anthropic._encoding import MessagesCodec
from terret_plugin_llm_anthropic._wire import Messages

MARK = {"type": "ephemeral"}


def encoded(*messages: Message, settings: AnthropicConfig | None = None, **fields: Any) -> bytes:
    fields = {"max_tokens": 9} | fields
    request = GenerateOptions(provider="anthropic", model="m", messages=messages, **fields)
    return Messages(settings or AnthropicConfig(prompt_cache="off")).encode(request)


def sent(*messages: Message, **options: Any) -> Any:
    return json.loads(encoded(*messages, **options))


def said(*content: Block, blocks: list[dict[str, object]] | None = None) -> Message:
    state = None if blocks is None else {"response": {}, "blocks": blocks}
    return create_assistant_message(content, "anthropic", "m", replay_state=state)


def test_a_request_has_what_the_wire_wants_and_nothing_that_is_not_set() -> None:
    """M-063: system, tools and stops have their own names and places."""
    schema = ToolSchema("add", "Adds", {"type": "object"})
    body = sent(create_user_message("hi"), system="Be brief.", tools=(schema,), stop=("x",))
    assert body == {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "stop_sequences": ["x"],
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "add", "description": "Adds", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


def test_messages_of_one_side_become_one() -> None:
    """M-060: results of parallel calls in one message, the text that steers behind them."""
    calling = said(
        TextBlock("So."), ToolCallBlock("a", "f", '{"x": 1}'), ToolCallBlock("b", "g", "")
    )
    results = [
        create_tool_result_message("a", "1"),
        create_tool_result_message("b", "2", is_error=True),
    ]
    body = sent(create_user_message("hi"), calling, *results, create_user_message("and?"))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {}},
    ]
    one, two, text = body["messages"][2]["content"]
    assert (one["tool_use_id"], "is_error" in one) == ("a", False)
    assert (two["tool_use_id"], two["is_error"]) == ("b", True)
    assert text == {"type": "text", "text": "and?"}


def test_no_empty_block_is_sent() -> None:
    """B-106: the provider refuses them for ever, also when there is nothing else to say."""
    calling = said(TextBlock("  "), ToolCallBlock("a", "f", "{}"))
    body = sent(
        create_user_message(""),
        said(),
        said(TextBlock("")),
        calling,
        create_tool_result_message("a", ""),
        Message("i", "user", (TextBlock("\n"),), UserSource()),
    )
    shown = [(m["role"], [block.get("text") for block in m["content"]]) for m in body["messages"]]
    assert shown == [("user", ["(empty)"]), ("assistant", [None]), ("user", [None, "(empty)"])]
    assert body["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "(no output)"}]


def test_thoughts_go_back_in_order_with_their_signature_and_unchanged() -> None:
    """B-087: a space at the end is part of what was signed."""
    redacted = UnknownBlock("redacted_thinking", {"type": "redacted_thinking", "data": "AAA="})
    answer = said(
        ReasoningBlock("step 1\nstep 2 "),
        redacted,
        ToolCallBlock("toolu_1", "f", "{}"),
        blocks=[{"signature": "c2ln"}, {}, {}],
    )
    [_, message, _] = sent(create_user_message("hi"), answer)["messages"]
    assert message["content"] == [
        {"type": "thinking", "thinking": "step 1\nstep 2 ", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "AAA="},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    ]


def test_thoughts_of_another_model_and_thoughts_alone_are_left_out() -> None:
    """M-029, B-064: without a signature they would be refused; an answer cannot end with one."""
    thought, words = ReasoningBlock("hm"), TextBlock("a")
    foreign, unfinished = said(thought, words), said(thought, blocks=[{"signature": "s"}])
    body = sent(create_user_message("hi"), foreign, unfinished)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "a"}]


@pytest.mark.parametrize("id", ["functions.get_weather:0", "", "x" * 99, "été"])
def test_an_id_that_the_provider_refuses_is_replaced_in_call_and_result(id: str) -> None:
    """B-064: a conversation can come from a provider with other ideas of an id."""
    history = [said(ToolCallBlock(id, "f", "{}")), create_tool_result_message(id, "1")]
    _, call, result = sent(create_user_message("hi"), *history)["messages"]
    wire_id = call["content"][0]["id"]
    assert wire_id == result["content"][0]["tool_use_id"]
    assert wire_id.isalnum()


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [('{"x": y', {}), ("[1]", {}), ("null", {}), ('{"a":"\\ud99c"}', {"a": "\ufffd"}), ("NaN", {})],
)
def test_a_garbled_call_is_replayed_as_a_valid_one(arguments: str, wanted: Any) -> None:
    """B-053, B-055, B-068: one bad answer must not make every later request invalid."""
    _, message, _ = sent(create_user_message("hi"), said(ToolCallBlock("a", "do it", arguments)))[
        "messages"
    ]
    [call] = message["content"]
    assert (call["name"], call["input"]) == ("do_it", wanted)


def test_stable_prefixes_are_marked_for_the_cache() -> None:
    """Tools and system prompt, and the end of the conversation; never an answer."""
    settings = AnthropicConfig()
    schema = ToolSchema("add", "Adds", {"type": "object"})
    hi = create_user_message("hi")
    with_system = sent(hi, settings=settings, system="Be brief.", tools=(schema,))
    assert with_system["system"][0]["cache_control"] == MARK
    assert "cache_control" not in with_system["tools"][0]
    assert with_system["messages"][-1]["content"][-1] == {
        "type": "text",
        "text": "hi",
        "cache_control": MARK,
    }
    without = sent(hi, said(TextBlock("yo")), settings=settings, tools=(schema,))
    assert without["tools"][0]["cache_control"] == MARK
    assert "cache_control" not in json.dumps(without["messages"])
    longer = sent(hi, settings=AnthropicConfig(prompt_cache="1h"))
    assert longer["messages"][0]["content"][0]["cache_control"] == MARK | {"ttl": "1h"}


def test_tools_that_the_provider_runs_stand_in_front_of_ours() -> None:
    search: Any = {"type": "web_search_20250305", "name": "web_search"}
    settings = AnthropicConfig(prompt_cache="off", extra_body={"tools": [search]})
    schema = ToolSchema("add", "Adds", {"type": "object"})
    body = sent(create_user_message("hi"), settings=settings, tools=(schema,))
    assert [tool["name"] for tool in body["tools"]] == ["web_search", "add"]


def test_only_the_last_message_is_marked_and_what_is_kept_is_not() -> None:
    """M-037: the mark moves from request to request, the kept bytes do not know it."""
    settings, hi = AnthropicConfig(), create_user_message("hi")
    wire = Messages(settings)

    def body(*messages: Message) -> Any:
        options = GenerateOptions(provider="a", model="m", max_tokens=9, messages=messages)
        return json.loads(wire.encode(options))

    body(hi)
    later = body(hi, said(TextBlock("yo")), create_user_message("more"))
    marks = [block.get("cache_control") for m in later["messages"] for block in m["content"]]
    assert marks == [None, None, MARK]


@pytest.mark.parametrize(
    ("settings", "effort", "fields"),
    [
        ({}, "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ({}, "off", {"thinking": {"type": "disabled"}}),
        (
            {"thinking_style": "budget"},
            "low",
            {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 2057},
        ),
        ({}, None, {}),
    ],
)
def test_an_effort_is_said_in_the_style_of_the_model(
    settings: dict[str, Any], effort: str | None, fields: dict[str, Any]
) -> None:
    """M-064: a budget comes on top of the cap, and a temperature is refused beside thinking."""
    config = AnthropicConfig(prompt_cache="off", **settings)
    hi = create_user_message("hi")
    body = sent(hi, settings=config, reasoning_effort=effort, temperature=0.5)
    plain = sent(hi, settings=config)
    thinks = effort not in (None, "off")
    assert body.pop("temperature", None) == (None if thinks else 0.5)
    assert {key: body[key] for key in body if body[key] != plain.get(key)} == fields


def test_a_title_is_made_without_thinking() -> None:
    """M-064: if an effort is set at all."""
    hi = create_user_message("hi")
    title = sent(hi, reasoning_effort="high", purpose="session-title")
    assert title["thinking"] == {"type": "disabled"}
    assert "thinking" not in sent(hi, purpose="session-title")


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ids = st.sampled_from(["a", "b", "c.d"])
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


@given(st.lists(messages), st.data())
def test_kept_bytes_are_the_bytes_of_encoding_everything_anew(
    history: list[Message], data: st.DataObject
) -> None:
    """M-037: and roles alternate, calls have results, and no block is empty."""
    for replaces in data.draw(st.lists(st.booleans(), max_size=3)):
        encoded(*history[: data.draw(st.integers(0, len(history)))])
        if history and replaces:
            history[data.draw(st.integers(0, len(history) - 1))] = data.draw(messages)
    body = encoded(*history)
    assert body == encoded(*[Message(m.id, m.role, m.content, m.source) for m in history])
    wire = json.loads(body)["messages"]
    roles = [message["role"] for message in wire]
    assert all(one != other for one, other in pairwise(roles))
    open_ids: list[str] = []
    for message in wire:
        assert message["content"]
        for block in message["content"]:
            assert block.get("text", "-").strip()
            if block["type"] == "tool_use":
                open_ids.append(block["id"])
            elif block["type"] == "tool_result":
                open_ids.remove(block["tool_use_id"])
        assert message["role"] == "assistant" or not open_ids


def test_codecs_share_what_is_kept() -> None:
    assert MessagesCodec().key == MessagesCodec(cache=MARK).key
