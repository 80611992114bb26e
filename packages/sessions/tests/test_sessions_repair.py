from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import ToolCallBlock, create_assistant_message, create_tool_result_message
from terret_sessions import (
    AssistantMessage,
    Completed,
    Interrupted,
    Session,
    SessionEvent,
    Sources,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    repair_closers,
)


class Log:
    """Appends what a loop would, one call at a time."""

    def __init__(self) -> None:
        self.session = Session()
        self.turn = self.step = 0

    def start_turn(self) -> None:
        self.turn, self.step = self.turn + 1, 0
        self.session.append("turn/start", TurnStart(self.turn))

    def start_step(self) -> None:
        self.step += 1
        self.session.append("step/start", StepStart(self.turn, self.step))

    def answer(self, *calls: str) -> None:
        message = create_assistant_message([ToolCallBlock(c, "add", "{}") for c in calls], "p", "m")
        view = AssistantMessage(self.turn, self.step, message)
        self.session.append("assistant/message", view, surface_op="append")

    def call(self, call: str) -> int:
        view = ToolCall(self.turn, self.step, call, "add", "{}")
        return self.session.append("tool/call", view).seq

    def result(self, call: str) -> None:
        message = create_tool_result_message(call, "3")
        view = ToolResult(self.turn, self.step, message)
        self.session.append("tool/result", view, surface_op="append")

    def ask(self, call: str, id: str, **more: str) -> None:
        self.session.append("approval/asked", {"id": id, "callId": call, **more})

    def decide(self, id: str, outcome: str) -> None:
        self.session.append("approval/decided", {"id": id, "outcome": outcome})

    def end_step(self) -> None:
        self.session.append("step/end", StepEnd(self.turn, self.step))

    def end_turn(self) -> None:
        self.session.append("turn/end", TurnEnd(self.turn, Completed()))

    def closers(self) -> tuple[SessionEvent, ...]:
        return repair_closers(self.session.events)

    def outcomes(self) -> list[tuple[str, str | None, Sources | None]]:
        """Call, code and sources of the results that repair adds."""
        views = [(e.view, e.sources) for e in self.closers()]
        return [
            (view.block.tool_call_id, None if view.error is None else view.error.code, sources)
            for view, sources in views
            if isinstance(view, ToolResult)
        ]


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_balanced_log_needs_nothing(log: Log) -> None:
    """S-075: Neither an empty log nor one whose turns are closed."""
    assert log.closers() == ()
    log.start_turn()
    log.start_step()
    log.end_step()
    log.end_turn()

    assert log.closers() == ()


def test_an_open_turn_is_closed_as_interrupted(log: Log) -> None:
    """S-075: With the next seq and the time of the last event."""
    log.start_turn()

    (end,) = log.closers()

    assert (end.seq, end.time, end.view) == (
        1,
        log.session.events[0].time,
        TurnEnd(1, Interrupted()),
    )


def test_an_open_step_is_closed_before_its_turn(log: Log) -> None:
    """S-075: First the step, then the turn; a closed step is not touched."""
    log.start_turn()
    log.start_step()
    assert [event.type for event in log.closers()] == ["step/end", "turn/end"]

    log.end_step()
    assert [event.type for event in log.closers()] == ["turn/end"]


def test_calls_without_result_are_answered_in_the_order_of_the_log(log: Log) -> None:
    """S-075: What was not started did not run; what was started may have."""
    log.start_turn()
    log.start_step()
    log.answer("a", "b", "c")
    started = log.call("a")
    log.call("b")
    log.result("b")

    assert log.outcomes() == [
        ("a", "TOOL_OUTCOME_UNKNOWN", Sources([started])),
        ("c", "TOOL_NOT_STARTED", None),
    ]
    closers = log.closers()
    assert [event.type for event in closers[2:]] == ["step/end", "turn/end"]
    assert all(event.surface_op == "append" for event in closers[:2])


def test_a_call_that_no_message_announced_is_answered_too(log: Log) -> None:
    """S-075: A tool/call without assistant entry is tolerated."""
    log.start_turn()
    log.start_step()
    seq = log.call("x")

    assert log.outcomes() == [("x", "TOOL_OUTCOME_UNKNOWN", Sources([seq]))]


def test_calls_of_earlier_steps_and_turns_are_left_alone(log: Log) -> None:
    """S-075: Closed steps and committed turns are not touched."""
    log.start_turn()
    log.start_step()
    log.answer("a")
    log.end_step()
    log.start_step()

    assert log.outcomes() == []


def test_the_texts_tell_the_model_what_it_must_know(log: Log) -> None:
    """S-075: It did not run, or judge whether a retry is safe; ids derive from call and seq."""
    log.start_turn()
    log.start_step()
    log.answer("a", "b")
    log.call("a")

    unknown, unstarted = log.closers()[:2]

    assert "safe to run it again" in _result(unknown).block.text
    assert "did not run" in _result(unstarted).block.text
    assert [_result(each).message.id for each in (unknown, unstarted)] == [
        f"repair-a-{unknown.seq}",
        f"repair-b-{unstarted.seq}",
    ]
    assert log.closers() == log.closers()


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (None, "TOOL_NOT_STARTED"),
        ("rejected", "TOOL_NOT_STARTED"),
        ("timed-out", "TOOL_NOT_STARTED"),
        ("allowed-once", "TOOL_OUTCOME_UNKNOWN"),
    ],
)
def test_a_call_that_waited_for_a_person_did_not_run(
    log: Log, outcome: str | None, code: str
) -> None:
    """S-109: Only an allowing decision lets the body start."""
    log.start_turn()
    log.start_step()
    log.answer("a")
    log.call("a")
    log.ask("a", "ask-1")
    if outcome is not None:
        log.decide("ask-1", outcome)

    assert [each[1] for each in log.outcomes()] == [code]


def test_the_item_of_a_subagent_says_nothing_about_the_parents_call(log: Log) -> None:
    """S-109: An item with an origin belongs to another session's call."""
    log.start_turn()
    log.start_step()
    log.answer("a")
    log.call("a")
    log.ask("a", "ask-1", origin="child")

    assert [each[1] for each in log.outcomes()] == ["TOOL_OUTCOME_UNKNOWN"]


steps = st.lists(st.sampled_from(["answer", "call", "result", "ask", "allow", "end"]), max_size=12)


@given(steps)
def test_a_repaired_log_is_balanced_whatever_the_crash_left(plan: list[str]) -> None:
    """S-075: Every prefix of a log can be closed, and is then left alone."""
    log = Log()
    log.start_turn()
    log.start_step()
    for number, action in enumerate(plan):
        match action:
            case "answer":
                log.answer(f"c{number}")
            case "ask":
                log.ask(f"c{number - 1}", f"ask{number}")
            case "allow":
                log.decide(f"ask{number - 1}", "allowed-once")
            case "end":
                log.end_step()
                log.start_step()
            case _:
                getattr(log, action)(f"c{number - 1}")
    whole = [*log.session.events, *log.closers()]

    assert repair_closers(whole) == ()
    assert Session(seed=whole).open_turn is None


def _result(event: SessionEvent) -> Any:
    return event.view
