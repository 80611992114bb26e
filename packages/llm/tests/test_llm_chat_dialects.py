"""What some servers want otherwise than the others, in requests and in answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from terret_llm import (
    Block,
    BlockAssembler,
    GenerateOptions,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_llm.chat import ChatCodec, ChatDecoder, ChatDialect
from terret_llm.wire import AnswerStream

RECORDED = Path(__file__).parents[4] / "shared" / "data" / "recorded"


def sent(*messages: Message, dialect: ChatDialect, **fields: Any) -> Any:
    options = GenerateOptions(provider="p", model="m", messages=messages, **fields)
    return json.loads(ChatCodec(dialect).encode_request(options))


def delta(finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def assembled(*body: bytes, decoder: ChatDecoder | None = None) -> BlockAssembler:
    stream = AnswerStream(decoder or ChatDecoder())
    assembler = BlockAssembler()
    for chunk in [*stream.feed(b"".join(body)), *stream.close()]:
        assembler.push(chunk)
    return assembler


def replayed(assembler: BlockAssembler) -> Message:
    return create_assistant_message(
        assembler.blocks(), "p", "m", replay_state=assembler.replay_state
    )


@pytest.mark.parametrize(
    ("style", "effort", "fields"),
    [
        ("effort", "low", {"reasoning_effort": "low"}),
        ("effort", "off", {"reasoning_effort": "none"}),
        ("thinking", "high", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("thinking", "on", {"thinking": {"type": "enabled"}}),
        ("thinking", "off", {"thinking": {"type": "disabled"}}),
        ("reasoning", "low", {"reasoning": {"effort": "low"}}),
        ("reasoning", "off", {"reasoning": {"enabled": False}}),
        ("template", "high", {"chat_template_kwargs": {"enable_thinking": True}}),
        ("template", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("thinking", None, {}),
    ],
)
def test_each_style_says_the_effort_in_its_words(
    style: Any, effort: str | None, fields: dict[str, Any]
) -> None:
    """M-064: and nothing where nobody chose one."""
    body = sent(dialect=ChatDialect(reasoning_style=style), reasoning_effort=effort)
    plain = sent(dialect=ChatDialect())
    assert {key: value for key, value in body.items() if key not in plain} == fields


def test_a_title_is_made_without_thinking_where_that_can_be_switched_off() -> None:
    """M-064: an `effort` server is left to its default."""
    title: Any = {"purpose": "session-title"}
    switched = sent(dialect=ChatDialect(reasoning_style="thinking"), **title)
    assert switched["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in sent(dialect=ChatDialect(), **title)


def test_the_system_prompt_and_the_question_for_counts_have_their_variants() -> None:
    body = sent(dialect=ChatDialect(system_role="developer", stream_usage=False), system="Hi.")
    assert body["messages"] == [{"role": "developer", "content": "Hi."}]
    assert "stream_options" not in body


@pytest.mark.parametrize(("rule", "content"), [("empty", ""), ("null", None), ("absent", "-")])
def test_an_answer_of_calls_alone_has_the_content_that_the_server_wants(
    rule: Any, content: str | None
) -> None:
    """B-082: some refuse null, some refuse an empty text."""
    calling = create_assistant_message([ToolCallBlock("a", "f", "{}")], "p", "m")
    [message, _] = sent(calling, dialect=ChatDialect(empty_content=rule))["messages"]
    assert message.get("content", "-") == content


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_under_the_name_of_the_server(name: Any) -> None:
    """B-080, M-061: on turns with calls also where another model gave none."""
    thought: list[Block] = [ReasoningBlock("hm"), TextBlock("a")]
    said = create_assistant_message(thought, "p", "m")
    called = create_assistant_message([ToolCallBlock("a", "f", "{}")], "q", "n")
    result = create_tool_result_message("a", "1")
    dialect = ChatDialect(replay_reasoning=name)
    wire = sent(said, called, result, dialect=dialect)["messages"]
    assert [message.get(name) for message in wire] == ["hm", "", None]


def test_reasoning_details_go_back_as_they_came() -> None:
    """B-080, B-087: pieces are put together, signatures kept, other servers see nothing of it."""

    def piece(**fields: Any) -> bytes:
        return delta(reasoning_details=[{"type": "reasoning.text", "index": 0} | fields])

    answer = assembled(
        piece(text="I th"),
        piece(text="ink ", signature=None),
        piece(signature="c2ln"),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "AAA=", "index": 1}]),
        delta(content="Hi"),
        delta("stop"),
    )
    details = [
        {"type": "reasoning.text", "index": 0, "text": "I think ", "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "AAA=", "index": 1},
    ]
    message = replayed(answer)
    dialect = ChatDialect(replay_reasoning="reasoning_details")
    assert sent(message, dialect=dialect)["messages"][0]["reasoning_details"] == details
    assert "reasoning_details" not in sent(message, dialect=ChatDialect())["messages"][0]
    stateless = message.without_replay_state()
    assert "reasoning_details" not in sent(stateless, dialect=dialect)["messages"][0]


def test_what_a_server_adds_to_a_call_goes_back_with_that_call() -> None:
    """B-090: a thought signature stays on its part, through text in front of it."""
    extra = {"google": {"thought_signature": "c2ln"}}
    function = {"name": "f", "arguments": "{}"}
    answer = assembled(
        delta(content="Let me see."),
        delta(tool_calls=[{"index": 0, "id": "a", "function": function, "extra_content": extra}]),
        delta(tool_calls=[{"index": 1, "id": "b", "function": function}]),
        delta("tool_calls"),
    )
    [message, *_] = sent(replayed(answer), dialect=ChatDialect())["messages"]
    assert [call.get("extra_content") for call in message["tool_calls"]] == [extra, None]


def test_what_goes_back_is_something_that_the_log_can_hold() -> None:
    """B-090: numbers that JSON readers disagree about are not kept as they came."""
    detail = b'{"type":"x","n":9007199254740993,"z":-0.0,"i":[Infinity],"h":1' + b"0" * 400 + b"}"
    choice = b'{"delta":{"content":"a","reasoning_details":[' + detail + b"]}}"
    answer = assembled(b'data: {"choices":[' + choice + b"]}\n\n", delta("stop"))
    state = answer.replay_state
    assert state is not None
    assert state["response"] == {
        "reasoning_details": [{"type": "x", "n": 2.0**53, "z": 0.0, "i": [None], "h": None}]
    }


def test_an_id_that_an_earlier_call_has_is_replaced() -> None:
    """B-062: a server that counts begins at 0 in each answer."""
    function = {"name": "f", "arguments": "{}"}
    call = delta(tool_calls=[{"index": 0, "id": "f:0", "function": function}])
    used = ChatDecoder(new_call_id=lambda: "new", is_used=lambda id: id == "f:0")
    assert [each.id for each in _calls(assembled(call, delta("stop")))] == ["f:0"]
    assert [each.id for each in _calls(assembled(call, delta("stop"), decoder=used))] == ["new"]


def _calls(assembler: BlockAssembler) -> list[ToolCallBlock]:
    return [block for block in assembler.blocks() if isinstance(block, ToolCallBlock)]


LEAKED = [
    '<\uff5cDSML\uff5ctool_calls>\n<\uff5cDSML\uff5cinvoke name="f"></\uff5cDSML\uff5ctool_calls>',
    'I will look.\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n',
    "<function=f>{}</function>",
    "<\uff5ctool\u2581calls\u2581begin\uff5c>f<\uff5ctool\u2581calls\u2581end\uff5c>",
    "<|tool_calls_section_begin|>f<|tool_calls_section_end|>",
    '[TOOL_CALLS][{"name": "f"}]',
]
QUOTED = [
    "Write it like this:\n```\n<tool_call>\n{}\n</tool_call>\n```",
    "The markup `<tool_call>...</tool_call>` is for models.",
    "<tool_call>{}</tool_call>\nis what a model writes.",
    "a > b",
    "See [1]",
]


@pytest.mark.parametrize("text", [*LEAKED, *QUOTED])
def test_a_call_that_leaks_as_text_is_no_plain_answer(text: str) -> None:
    """B-065: the finish says so; quoted examples are left alone, and nothing is run."""
    answer = assembled(delta(content=text), delta("stop"))
    assert answer.finish.kind == ("leaked-tool-call" if text in LEAKED else "stop")
    assert answer.blocks() == (TextBlock(text),)


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "error"])
def test_a_finish_that_is_a_failure_is_one(reason: str) -> None:
    """B-113: no empty success, and it may be repeated."""
    failure = assembled(delta(content=""), delta(reason)).finish.failure
    assert failure is not None
    assert failure.code == "SERVER"


def test_an_answer_without_any_content_is_empty() -> None:
    """B-113, M-068: a stop candidate without parts."""
    failure = assembled(delta(content=""), delta("STOP")).finish.failure
    assert failure is not None
    assert failure.code == "EMPTY_RESPONSE"


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded exchanges are not here")
def test_recorded_answers_that_were_not_streamed() -> None:
    """B-022, B-080: reasoning and calls of whole answers, and what their next request sent."""
    for path in sorted(RECORDED.glob("deepseek/*.response.json")):
        whole = json.loads(path.read_bytes())["choices"][0]["message"]
        answer = assembled(path.read_bytes())
        message = replayed(answer)
        dialect = ChatDialect(replay_reasoning="reasoning_content")
        wire = sent(create_user_message("hi"), message, dialect=dialect)["messages"][1]
        assert wire["content"] == whole["content"]
        assert wire.get("reasoning_content") == whole.get("reasoning_content")
        arguments = [call["function"] for call in whole.get("tool_calls") or ()]
        assert [call["function"] for call in wire.get("tool_calls", ())] == arguments
