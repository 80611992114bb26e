import gc
from typing import Any

import pytest

from terret_llm import (
    LlmCallConfig,
    TextBlock,
    TextDelta,
    ToolSchema,
    create_assistant_message,
    create_user_message,
)
from terret_sessions import (
    AssistantChunk,
    AssistantMessage,
    Completed,
    EpochHeader,
    InvalidEventError,
    LosslessJsonError,
    RequestContext,
    RequestHeader,
    Session,
    SessionEvent,
    SessionMeta,
    StepEnd,
    StepStart,
    SurfaceError,
    Todo,
    TodoWrite,
    TurnEnd,
    TurnStart,
    UnknownEventTypeError,
    epoch_header_from_wire,
    session_header_from_wire,
)

CONFIG = LlmCallConfig(provider="p", model="m")


def _turn(session: Session, text: str = "hi") -> None:
    number = session.last_turn + 1
    session.append("turn/start", TurnStart(number))
    session.append("user/message", create_user_message(text), surface_op="append")
    session.append("turn/end", TurnEnd(number, Completed()))


def _wire(session: Session) -> list[dict[str, object]]:
    envelopes = []
    for event in session.events:
        row: dict[str, object] = {"type": event.type, "seq": event.seq, "time": event.time}
        row["data"] = event.data
        if event.surface_op is not None:
            row["surfaceOp"] = event.surface_op
        envelopes.append(row)
    return envelopes


def test_events_have_contiguous_seqs_from_zero() -> None:
    """S-010: The seq of an event is its place in the log."""
    session = Session()
    _turn(session)

    assert [event.seq for event in session.events] == [0, 1, 2]
    assert all(event.time > 1_700_000_000_000 for event in session.events)


def test_the_number_of_the_turn_follows_from_the_log() -> None:
    """S-010: Open and last turn are folds, also over a seed."""
    session = Session()
    assert (session.open_turn, session.last_turn) == (None, 0)
    _turn(session)
    session.append("turn/start", TurnStart(2))

    assert (session.open_turn, session.last_turn) == (2, 2)
    assert (Session(seed=session.events).open_turn, Session().open_turn) == (2, None)


def test_the_number_of_the_open_step_follows_from_the_log() -> None:
    """S-010: A step is open between its two events, also over a seed."""
    session = Session()
    session.append("turn/start", TurnStart(1))
    steps = [session.open_step]
    session.append("step/start", StepStart(1, 1))
    steps += [session.open_step, Session(seed=session.events).open_step]
    session.append("step/end", StepEnd(1, 1))

    assert [*steps, session.open_step] == [None, 1, 1, None]


def test_plain_data_is_copied_and_typed() -> None:
    """S-020, S-101: A declared type may be given as JSON; later changes do not reach the log."""
    session = Session()
    data: dict[str, Any] = {"todos": [{"content": "a", "status": "open"}]}

    event = session.append("todo/write", data)
    data["todos"][0]["content"] = "b"

    assert event.view == TodoWrite((Todo("a", "open"),))
    assert event.data == {"todos": [{"content": "a", "status": "open"}]}


def test_plain_data_of_a_plugin_is_walked_and_copied() -> None:
    """S-020, S-021, S-101: The error names type and pointer, and nothing was appended."""
    session = Session()
    data = {"args": {"when": [1, {2}]}}

    with pytest.raises(LosslessJsonError, match="approval/asked: /args/when/1: set") as caught:
        session.append("approval/asked", data)
    event = session.append("approval/asked", {"args": data["args"]["when"][:1]})

    assert (caught.value.event_type, caught.value.pointer) == ("approval/asked", "/args/when/1")
    assert event.view == event.data == {"args": [1]}
    assert len(session.events) == 1


def test_a_payload_of_its_class_is_stored_as_it_is() -> None:
    """S-024, S-100: It is neither walked nor copied."""
    message = create_user_message("hi")

    event = Session().append("user/message", message, surface_op="append")

    assert event.view is message


def test_appending_costs_the_same_for_a_message_of_any_size() -> None:
    """S-100: The number of objects an append makes does not depend on the payload."""

    def objects(blocks: int) -> int:
        content = [TextBlock("x")] * blocks
        answer = AssistantMessage(1, 1, create_assistant_message(content, "p", "m"))
        session = Session()
        gc.collect()
        before = len(gc.get_objects())
        session.append("assistant/message", answer, surface_op="append")
        return len(gc.get_objects()) - before

    assert objects(10_000) <= objects(1) + 2


def test_a_type_that_nobody_declared_must_be_ignorable() -> None:
    """S-023: Otherwise no reader could load the log."""
    session = Session()

    with pytest.raises(UnknownEventTypeError):
        session.append("else/where", {})
    event = session.append("else/where", {"a": 1}, ignorable=True)

    assert (event.ignorable, event.view) == (True, {"a": 1})
    with pytest.raises(InvalidEventError, match="must be an object"):
        session.append("else/where", [1], ignorable=True)


def test_a_declared_type_says_itself_whether_it_may_be_skipped() -> None:
    """M-117: The mark belongs to the type, not to the caller."""
    session = Session()

    assert session.append("tool/decision", {}).ignorable
    assert not session.append("turn/start", TurnStart(1), ignorable=True).ignorable


def test_a_seed_is_replayed_identically() -> None:
    """S-015: The same events and messages, and one marker at the end."""
    session = Session()
    _turn(session)

    replay = Session(seed=session.events)

    assert list(replay.events)[:-1] == list(session.events)
    assert list(replay.derive_messages()) == list(session.derive_messages())
    assert (replay.first_live_seq, replay.events[-1].type) == (3, "session/end-seed")


@pytest.mark.parametrize(("seed", "types"), [(None, []), ((), ["session/end-seed"])])
def test_an_empty_seed_is_marked_and_no_seed_is_not(
    seed: tuple[SessionEvent, ...] | None, types: list[str]
) -> None:
    """S-015: An explicit empty seed gets a marker, a fresh session none."""
    session = Session(seed=seed)

    assert [event.type for event in session.events] == types
    assert session.first_live_seq == 0


def test_a_seed_that_is_marked_gets_no_second_marker() -> None:
    """S-015, S-077: Whether a turn is open or not."""
    session = Session()
    session.append("turn/start", TurnStart(1))
    first = Session(seed=session.events)

    second = Session(seed=first.events)

    assert [event.type for event in second.events] == ["turn/start", "session/end-seed"]
    assert second.first_live_seq == 2


def test_a_plain_seed_is_walked_copied_and_typed() -> None:
    """S-024, S-101: JSON objects are taken over as events, detached from the caller."""
    session = Session()
    _turn(session)
    rows = _wire(session)

    replay = Session(seed=rows)
    rows[0]["data"]["turn"] = 9  # type: ignore[index]  # a JSON object

    assert list(replay.events)[:-1] == list(session.events)


def test_a_typed_seed_is_taken_over_without_a_copy() -> None:
    """S-018, S-024: Payloads are shared, not copied."""
    session = Session()
    _turn(session)

    replay = Session(seed=session.events)

    assert all(a is b for a, b in zip(replay.events, session.events, strict=False))


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({"seq": 4}, InvalidEventError, "seq 1 is next"),
        ({"surfaceOp": None}, InvalidEventError, "surfaceOp"),
        ({"more": 1}, InvalidEventError, "unknown key 'more'"),
        ({"time": float("nan")}, LosslessJsonError, "user/message: /time"),
        ({"data": {"turn": 1}}, InvalidEventError, "unknown key"),
    ],
)
def test_a_seed_with_a_fault_is_refused(
    change: dict[str, object], error: type[Exception], reason: str
) -> None:
    """S-018, S-021, S-023: Gaps, envelopes and payloads are checked as in an append."""
    session = Session()
    _turn(session)
    rows = _wire(session)
    rows[1] |= change

    with pytest.raises(error, match=reason):
        Session(seed=rows)


def test_a_seed_must_mark_its_surface() -> None:
    """S-023: A surface event without its operation is refused."""
    session = Session()
    _turn(session)
    rows = _wire(session)
    del rows[1]["surfaceOp"]

    with pytest.raises(SurfaceError, match="needs a surfaceOp"):
        Session(seed=rows)


def test_the_last_header_and_context_are_in_force() -> None:
    """S-071, S-072: Nothing at first, then the last snapshot, also after a replay."""
    session = Session()
    assert session.request_header() is None
    assert session.request_context() is None

    for system in ("a", "b"):
        header = EpochHeader(config=CONFIG, system=system)
        session.append("request/header", RequestHeader(header, "change"))
        session.append("request/context", RequestContext("p", system))

    for each in (session, Session(seed=session.events)):
        assert each.request_header() == EpochHeader(config=CONFIG, system="b")
        assert each.request_context() == RequestContext("p", "b")


def test_an_empty_part_of_a_header_is_an_absent_one() -> None:
    """S-070: The canonical form has no empties; absent equals empty."""
    bare = EpochHeader(config=CONFIG)

    assert EpochHeader(config=CONFIG, system="", tools=(), message_prefix=()) == bare
    assert bare.to_wire() == {"config": {"provider": "p", "model": "m"}}
    assert epoch_header_from_wire(bare.to_wire()) == bare


def test_headers_are_equal_only_in_every_field() -> None:
    """S-019, S-070: The order of tools counts, and so do markers and effort."""
    one, two = (ToolSchema(name, "", {"type": "object"}) for name in "ab")
    prefix = (create_user_message("x"),)
    headers = [
        EpochHeader(config=CONFIG),
        EpochHeader(config=LlmCallConfig(provider="p", model="m", reasoning_effort="low")),
        EpochHeader(config=CONFIG, adapter_defaults=frozenset({"max_tokens"})),
        EpochHeader(config=CONFIG, adapter_defaults=frozenset({"reasoning_effort"})),
        EpochHeader(config=CONFIG, system="x"),
        EpochHeader(config=CONFIG, tools=(one, two)),
        EpochHeader(config=CONFIG, tools=(two, one)),
        EpochHeader(config=CONFIG, message_prefix=prefix),
    ]

    for index, header in enumerate(headers):
        assert [header == other for other in headers].count(True) == 1
        assert epoch_header_from_wire(header.to_wire()) == headers[index]


def test_an_adapter_can_fill_in_three_fields_only() -> None:
    """S-019: Another marker is refused."""
    with pytest.raises(ValueError, match="temperature"):
        EpochHeader(config=CONFIG, adapter_defaults=frozenset({"temperature"}))


def test_the_last_todo_list_is_the_list() -> None:
    """S-076: It is not on the surface, and a replay keeps it."""
    session = Session()
    for status in ("open", "done"):
        session.append("todo/write", TodoWrite((Todo("a", status),)))

    replay = Session(seed=session.events)

    assert [e.view for e in replay.events if e.type == "todo/write"][-1] == TodoWrite(
        (Todo("a", "done"),)
    )
    assert replay.surface.seqs == ()


def test_a_bare_session_has_a_header() -> None:
    """S-026: Of the current version, with an id and the time of its creation."""
    session = Session()

    assert session.header.version == 0
    assert session.id == session.header.id != Session().id
    assert session.header.created_at > 1_700_000_000_000
    assert Session("mine").id == "mine"
    assert not session.live


def test_metadata_lands_in_the_header() -> None:
    """S-025, S-035: In either spelling, and it round-trips."""
    meta = SessionMeta(
        cwd="/work",
        parent_session="p",
        seed_length=3,
        origin="subagent",
        delegation_depth=1,
        agent_preset="coder",
    )
    wire = {"cwd": "C:\\work", "parentSession": "p", "delegationDepth": 2}

    header = Session("s", meta=meta).header

    assert (header.cwd, header.origin, header.delegation_depth) == ("/work", "subagent", 1)
    assert session_header_from_wire(header.to_wire()) == header
    assert Session(meta=wire).header.to_wire().items() >= wire.items()


@pytest.mark.parametrize(
    "meta",
    [
        {"cwd": "relative"},
        {"cwd": 1},
        {"origin": "person"},
        {"delegationDepth": -1},
        {"delegationDepth": True},
        {"seedLength": 1.5},
        {"parentSession": "\ud800"},
        {"colour": "red"},
        {"agentPreset": float("nan")},
    ],
)
def test_other_metadata_is_refused(meta: dict[str, object]) -> None:
    """S-021, S-025, S-035: Unknown keys, wrong types, and what is not JSON."""
    with pytest.raises(ValueError, match="session"):
        Session(meta=meta)


@pytest.mark.parametrize("change", [{"id": ""}, {"createdAt": -1}, {"version": 1}, {"x": 1}])
def test_a_stored_header_of_another_form_is_refused(change: dict[str, object]) -> None:
    """S-016, S-025: Id, time and version are checked."""
    with pytest.raises(ValueError, match="session header"):
        session_header_from_wire(Session("s").header.to_wire() | change)


def test_a_chunk_takes_part_in_nothing_but_the_log() -> None:
    """S-011: Folds and surface stay as they are."""
    session = Session()
    session.append("step/start", StepStart(1, 1))
    session.append("assistant/chunk", AssistantChunk(1, 1, TextDelta(0, "x")))

    assert len(session.derive_messages()) == 0
    assert session.surface.seqs == ()
