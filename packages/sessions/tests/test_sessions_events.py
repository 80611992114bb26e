import json
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishChunk,
    LlmCallConfig,
    LlmFailure,
    PluginSource,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    ToolSchema,
    Usage,
    UsageChunk,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_sessions import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Blocked,
    CancelCause,
    Completed,
    Denied,
    EndSeed,
    EpochHeader,
    Errored,
    ErrorInfo,
    EventTypeConflictError,
    InboxSpliced,
    Interrupted,
    InvalidEventError,
    LosslessJsonError,
    MaxSteps,
    MaxTokens,
    OtherEnd,
    PromptBlocked,
    Replace,
    RequestContext,
    RequestHeader,
    Session,
    SessionEvent,
    Sources,
    StepEnd,
    StepStart,
    Todo,
    TodoWrite,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UnknownEventTypeError,
    declare_event_type,
    event_from_json,
    event_from_wire,
    event_row,
    event_to_json,
    event_type,
)

USER = create_user_message([TextBlock("hé"), TextBlock("\u2028")], source=PluginSource("memory"))
ANSWER = create_assistant_message([TextBlock("a"), ToolCallBlock("c1", "add", "{}")], "p", "m")
RESULT = create_tool_result_message("c1", "3")
FAILURE = LlmFailure("busy", "RATE_LIMIT", status=429)
HEADER = EpochHeader(
    config=LlmCallConfig(provider="p", model="m", reasoning_effort="high", max_tokens=10),
    adapter_defaults=frozenset({"max_tokens"}),
    system="Be brief.",
    tools=(ToolSchema("add", "Adds.", {"type": "object"}),),
    message_prefix=(USER,),
)
REASONS: list[TurnEndReason] = [
    Completed(),
    MaxTokens(),
    Aborted(CancelCause("user")),
    Aborted(CancelCause("hook", "too late")),
    Blocked(),
    Blocked("not now"),
    Errored(FAILURE),
    Errored(FAILURE, 2),
    Interrupted(),
    MaxSteps(3),
    Denied(("bash", "write")),
    OtherEnd("paused", {"kind": "paused", "pending": [1]}),
]
CHUNKS: list[Chunk] = [
    BlockStart(0, "text"),
    TextDelta(0, 'say "hé"\n\u2028'),
    ReasoningDelta(1, "hm"),
    ToolCallDelta(2, "c1", "add", '{"a"'),
    ToolCallDelta(2, "c1", None, ":1}"),
    BlockEnd(0, TextBlock("x")),
    UsageChunk(Usage(1, 2, cache_read_tokens=3)),
    FinishChunk(Finish.stop()),
]
PAYLOADS: list[tuple[str, object]] = [
    ("turn/start", TurnStart(1)),
    *(("turn/end", TurnEnd(1, reason)) for reason in REASONS),
    ("step/start", StepStart(1, 1)),
    ("step/end", StepEnd(1, 1)),
    ("user/message", USER),
    *(("assistant/chunk", AssistantChunk(1, 1, chunk)) for chunk in CHUNKS),
    ("assistant/message", AssistantMessage(1, 1, ANSWER, Usage(1, 2), interrupted=True)),
    ("tool/call", ToolCall(1, 1, "c1", "add", '{"a":1}')),
    ("tool/result", ToolResult(1, 1, RESULT, ErrorInfo("Denied", "DENIED", {"rule": "r"}))),
    ("request/header", RequestHeader(HEADER, "initial")),
    ("request/context", RequestContext("p", "m", 4096)),
    ("agent/inbox/spliced", InboxSpliced("next-turn", 0, 1, (USER,), "canceled")),
    ("prompt/blocked", PromptBlocked(USER.content, USER.source, "no", USER.id)),
    ("todo/write", TodoWrite((Todo("test", "open"),))),
    ("session/end-seed", EndSeed()),
]


def _event(name: str, view: object) -> SessionEvent:
    declared = event_type(name)
    assert declared is not None
    surface_op: Any = "append" if declared.surface else None
    sources = Sources([(1, 4)]) if declared.surface else None
    return SessionEvent(name, 9, 1_700_000_000_000, view, surface_op, sources, declared.ignorable)


@pytest.mark.parametrize(("name", "view"), PAYLOADS)
def test_a_row_gives_the_event_back(name: str, view: object) -> None:
    """S-013, S-014, S-077, S-102: Every type round-trips, and its row holds `event.data`."""
    event = _event(name, view)

    row = event_to_json(event)
    again = event_from_json(row)

    assert again == event
    assert b"\n" not in row
    assert json.loads(row)["data"] == event.data
    assert event_to_json(again) == row
    assert event_from_wire(json.loads(row)) == event


def test_all_end_reasons_are_covered() -> None:
    """S-013: The list above names every kind of the union."""
    assert {type(reason) for reason in REASONS} == set(get_args(TurnEndReason))


def test_a_replacement_round_trips() -> None:
    """S-051, S-077: The range of a replacement is part of the envelope."""
    event = SessionEvent("user/message", 9, 1, USER, Replace(2, 5), Sources([2, 5]))

    assert event_from_json(event_to_json(event)) == event
    assert json.loads(event_to_json(event))["surfaceOp"] == {"op": "replace", "start": 2, "end": 5}


def test_data_is_built_once() -> None:
    """S-020, S-102: The second read gives the same object."""
    event = _event("turn/start", TurnStart(1))

    assert event.data == {"turn": 1}
    assert event.data is event.data


def test_events_take_no_further_attributes() -> None:
    """S-105: An event is slotted."""
    with pytest.raises(AttributeError):
        _event("turn/start", TurnStart(1)).note = "x"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seq": -1}, "seq"),
        ({"seq": True}, "seq"),
        ({"time": 1.5}, "time"),
        ({"extra": 1}, "unknown key 'extra'"),
        ({"data": []}, "data"),
        ({"data": {"turn": 0}}, "at least 1"),
        ({"data": {"turn": 1, "x": 1}}, "unknown key 'x'"),
        ({"data": {"turn": "1"}}, "int"),
        ({"type": None}, "type"),
        ({"ignorable": False}, "may only be true"),
        ({"surfaceOp": "prepend"}, "surfaceOp"),
        ({"surfaceOp": {"op": "insert", "start": 1, "end": 1}}, "replace"),
        ({"sourceEventSeqs": [2, 1]}, "does not come after"),
    ],
)
def test_an_envelope_or_payload_of_another_form_is_refused(
    change: dict[str, object], reason: str
) -> None:
    """S-016, S-023, S-110: Exactly the current form is read; the error names seq and type."""
    row = {"type": "turn/start", "seq": 3, "time": 1, "data": {"turn": 1}} | change

    with pytest.raises(InvalidEventError, match=reason) as caught:
        event_from_json(json.dumps(row))

    assert caught.value.seq == row["seq"]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("user/message", ANSWER.to_wire(), "'user'"),
        ("user/message", {"content": "hi", "role": "user"}, "id"),
        ("assistant/message", {"turn": 1, "step": 1, "message": USER.to_wire()}, "'assistant'"),
        ("tool/result", {"turn": 1, "step": 1, "message": USER.to_wire()}, "source tool"),
        ("request/header", {"reason": "change", "header": {"system": "x"}}, "config"),
        (
            "request/header",
            {"reason": "x", "header": {"config": {}}},
            "initial, resume, change",
        ),
        (
            "request/header",
            {"reason": "change", "header": {"config": {}, "adapterDefaults": {"model": False}}},
            "may only be true",
        ),
    ],
)
def test_malformed_messages_and_headers_are_refused(
    name: str, data: dict[str, object], reason: str
) -> None:
    """S-016, S-019, S-071, S-110: A message or header of an older or broken form is refused."""
    row = {"type": name, "seq": 7, "time": 1, "data": data}

    with pytest.raises(InvalidEventError, match=reason) as caught:
        event_from_wire(row)

    assert (caught.value.seq, caught.value.event_type) == (7, name)


def test_blocks_of_plugins_pass_through_unread() -> None:
    """S-017: The inside of an unknown block is kept as it is."""
    image = {"type": "image", "attachment": {"id": "x", "w": 1}}
    data = USER.to_wire() | {"content": [image]}
    row = {"type": "user/message", "seq": 0, "time": 1, "data": data, "surfaceOp": "append"}

    assert json.loads(event_to_json(event_from_wire(row)))["data"]["content"] == [image]


def test_a_type_that_nobody_declared_needs_the_mark_ignorable() -> None:
    """M-117: A reader skips what it may skip, and refuses the rest."""
    row: dict[str, object] = {"type": "else/where", "seq": 1, "time": 1, "data": {"a": [1]}}

    with pytest.raises(UnknownEventTypeError, match="else/where"):
        event_from_wire(row)
    event = event_from_wire(row | {"ignorable": True})

    assert event.view == event.data == {"a": [1]}
    assert event_from_json(event_to_json(event)) == event


@pytest.mark.parametrize(
    ("number", "pointer"),
    [
        (b"1e400", "/data/args/x"),
        (b"-0.0", "/data/args/x"),
        (b"-1e-400", "/data/args/x"),
        (b"9007199254740992", "/data/args/x"),
        (b"[[1],[2,NaN]]", "/data/args/x/1/1"),
    ],
)
def test_a_row_that_is_not_lossless_is_refused_with_its_pointer(
    number: bytes, pointer: str
) -> None:
    """S-021, S-101: What is loaded is checked as well."""
    row = b'{"type":"approval/asked","seq":1,"time":1,"data":{"args":{"x":%b}}}' % number

    with pytest.raises(LosslessJsonError, match="approval/asked") as caught:
        event_from_json(row)

    assert caught.value.pointer == pointer


def test_a_lone_surrogate_costs_only_its_own_row() -> None:
    """S-108: Encoding names type, seq and pointer; the fallback writes a marked replacement."""
    broken = create_assistant_message([TextBlock("a\ud800b")], "p", "m")
    event = SessionEvent("assistant/message", 5, 1, AssistantMessage(1, 1, broken), "append")

    with pytest.raises(InvalidEventError, match="seq 5, assistant/message: /message/content/0"):
        event_to_json(event)
    row = event_row(event)

    assert json.loads(row)["lossy"] is True
    assert event_from_json(row).view.message.text == "a\ufffdb"  # type: ignore[attr-defined]


def test_a_lone_surrogate_in_a_chunk_is_caught_too() -> None:
    """S-108: Rows that are formatted by hand are no exception."""
    event = SessionEvent("assistant/chunk", 5, 1, AssistantChunk(1, 1, TextDelta(0, "\udc80")))

    with pytest.raises(InvalidEventError, match="/chunk/text"):
        event_to_json(event)
    view = event_from_json(event_row(event)).view

    assert view == AssistantChunk(1, 1, TextDelta(0, "\ufffd"))


def test_a_value_json_has_no_word_for_costs_only_its_own_row() -> None:
    """S-108: The same holds for whatever else a trusted payload should not have held."""
    message = create_assistant_message("x", "p", "m", replay_state={"at": float("nan"), "o": {1}})
    event = SessionEvent("assistant/message", 5, 1, AssistantMessage(1, 1, message), "append")

    row = json.loads(event_row(event))

    assert row["data"]["message"]["source"]["replayState"] == {"at": None, "o": "{1}"}


def test_the_data_of_a_denial_is_checked_where_it_is_made() -> None:
    """S-021: The constructor of a payload is its check."""
    with pytest.raises(LosslessJsonError, match="/when"):
        ErrorInfo("Denied", "DENIED", {"when": {1}})


@dataclass(frozen=True, slots=True)
class Ping:
    """A payload as a plugin would declare it."""

    host_name: str
    tries: tuple[int, ...] = ()
    note: str | None = None


PING = declare_event_type("test/ping", Ping)


def test_a_plain_dataclass_gets_a_codec_in_wire_spelling() -> None:
    """S-101: A plugin declares a payload by its fields."""
    event = SessionEvent("test/ping", 0, 1, Ping("a", (1, 2)))

    assert event.data == {"hostName": "a", "tries": [1, 2]}
    assert event_from_json(event_to_json(event)) == event


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"hostName": 1}, "/hostName"),
        ({"hostName": "a", "tries": ["1"]}, "/tries/0"),
        ({"hostName": "a", "x": 1}, "/x"),
        ({}, "/hostName"),
    ],
)
def test_a_generated_codec_converts_nothing(data: dict[str, object], reason: str) -> None:
    """S-023, S-101: Types are exact, unknown keys are refused, the pointer is named."""
    with pytest.raises(InvalidEventError, match=reason):
        Session().append("test/ping", data)


def test_a_type_belongs_to_one_package() -> None:
    """S-101: A second declaration with another payload is refused."""
    with pytest.raises(EventTypeConflictError, match="test/ping"):
        declare_event_type("test/ping", Todo)

    assert declare_event_type("test/ping", Ping).payload is Ping


def test_a_payload_class_may_be_added_to_a_plain_type() -> None:
    """M-117: Types of known plugins can be loaded without them, and typed by them."""

    @dataclass(frozen=True, slots=True)
    class Probe:
        value: int

    declare_event_type("test/probe", ignorable=True)
    with pytest.raises(EventTypeConflictError):
        declare_event_type("test/probe", Probe)

    assert declare_event_type("test/probe", Probe, ignorable=True).payload is Probe


def test_a_payload_must_be_a_dataclass() -> None:
    """S-101: Anything else is a programming error."""
    with pytest.raises(TypeError, match="dataclass"):
        declare_event_type("test/number", int)
