import json
from typing import Any

import pytest

from terret_llm import (
    Block,
    GenerateOptions,
    Message,
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
from terret_llm.chat import ChatCodec, ChatDialect

CODEC = ChatCodec()


def request(*messages: Message, **fields: Any) -> GenerateOptions:
    return GenerateOptions(provider="p", model="m", messages=messages, **fields)


def sent(*messages: Message, codec: ChatCodec = CODEC) -> Any:
    return json.loads(codec.encode_request(request(*messages)))["messages"]


def said(*content: Block) -> Message:
    return create_assistant_message(content, "p", "m")


def test_a_request_asks_for_a_stream_with_usage_and_leaves_out_what_is_not_set() -> None:
    """M-063: system first, empty tools omitted, usage always asked for."""
    body = json.loads(CODEC.encode_request(request(create_user_message("hi"), system="Be brief.")))
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ],
    }


def test_settings_and_tools_have_their_wire_names() -> None:
    """M-063: parameters, stops and tools are mapped."""
    schema = ToolSchema("add", "Add", {"type": "object"})
    options = request(
        temperature=0.5, max_tokens=9, stop=("x",), reasoning_effort="low", tools=(schema,)
    )
    codec = ChatCodec(ChatDialect(max_tokens_field="max_completion_tokens"))
    body = json.loads(codec.encode_request(options))
    del body["messages"], body["stream"], body["stream_options"], body["model"]
    assert body == {
        "temperature": 0.5,
        "max_completion_tokens": 9,
        "stop": ["x"],
        "reasoning_effort": "low",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Add",
                    "parameters": {"type": "object"},
                },
            }
        ],
    }


def test_extra_keys_are_added_and_null_takes_a_key_away() -> None:
    body = json.loads(
        CODEC.encode_request(
            request(temperature=1.0), extra={"stream_options": None, "temperature": 0, "seed": 7}
        )
    )
    assert "stream_options" not in body
    assert (body["temperature"], body["seed"]) == (0, 7)


def test_tool_calls_and_results_are_messages_of_their_own() -> None:
    """M-060: results in order, before the text beside them; content is never null."""
    results = (ToolResultBlock("a", (TextBlock("3"),)), ToolResultBlock("b", ()))
    mixed = Message("i", "user", (TextBlock("and?"), *results), UserSource())
    assert sent(said(ToolCallBlock("a", "f", "{}"), ToolCallBlock("b", "g", "")), mixed) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "3"},
        {"role": "tool", "tool_call_id": "b", "content": "(no output)"},
        {"role": "user", "content": "and?"},
    ]


def test_what_no_server_takes_is_left_out_or_replaced() -> None:
    """M-062, B-106: unknown blocks are skipped, a message without content is not sent."""
    image = UnknownBlock("image", {"type": "image"})
    empty = Message("i", "user", (), UserSource())
    assert sent(
        said(ReasoningBlock("hm")),
        said(TextBlock("a"), image),
        Message("s", "system", (TextBlock("now"),), UserSource()),
        empty,
    ) == [
        {"role": "assistant", "content": "a"},
        {"role": "system", "content": "now"},
        {"role": "user", "content": ""},
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "replayed"),
    [
        ("f", '{"x": y', ("f", "{}")),
        ("f", '["x"]', ("f", "{}")),
        ("", "{}", ("unknown", "{}")),
        ("do it", '{"a":"\\ud99c"}', ("do_it", '{"a":"\\ufffd"}')),
    ],
)
def test_a_garbled_call_is_replayed_as_a_valid_one(
    name: str, arguments: str, replayed: tuple[str, str]
) -> None:
    """B-053, B-055, B-061, B-068: one bad answer must not make every later request invalid."""
    message, _ = sent(said(ToolCallBlock("a", name, arguments)))
    function = message["tool_calls"][0]["function"]
    assert (function["name"], function["arguments"]) == replayed


def test_reasoning_goes_back_only_where_it_is_asked_for() -> None:
    """B-080, M-061: on plain turns and on turns with calls."""
    plain = said(ReasoningBlock("hm"), TextBlock("a"))
    calling = said(ReasoningBlock("so"), ToolCallBlock("a", "f", "{}"))
    foreign = said(ToolCallBlock("b", "f", "{}"))
    replay = ChatCodec(ChatDialect(replay_reasoning="reasoning_content"))
    wire = sent(plain, calling, foreign, codec=replay)
    assert [m["reasoning_content"] for m in wire if m["role"] == "assistant"] == ["hm", "so", ""]
    assert "reasoning_content" not in sent(plain)[0]


def test_a_lone_surrogate_in_the_history_does_not_break_the_request() -> None:
    """B-068, B-154: the bytes are valid UTF-8 JSON."""
    calling = said(ToolCallBlock("a", "f", "{}"))
    assert sent(calling, create_tool_result_message("a", "x\ud99c"))[1]["content"] == "x\ufffd"


def test_a_request_is_a_prefix_of_the_next_one() -> None:
    """B-187: up to its last message, so that the provider's cache hits."""
    schema = ToolSchema("add", "Add.", {"type": "object"})
    first = [create_user_message("hi")]
    later = [*first, said(TextBlock("yo")), create_user_message("more")]
    head = CODEC.encode_request(request(*first, tools=(schema,), system="s")).removesuffix(b"]}")
    assert CODEC.encode_request(request(*later, tools=(schema,), system="s")).startswith(head)
