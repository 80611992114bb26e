"""What the next request of a session has: estimates, and the provider's count under them."""

from typing import Any

import pytest

from terret_llm import (
    LlmCallConfig,
    Message,
    ToolSchema,
    UnknownBlock,
    Usage,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_token_meter._meter import LogTokenMeter, UnreadableLogError
from terret_plugin_token_meter._pricing import Pricing
from terret_sessions import (
    AssistantMessage,
    EpochHeader,
    Measurement,
    Replace,
    RequestHeader,
    Session,
    SessionEvent,
    Sources,
    StepEnd,
    StepStart,
    TurnStart,
    event_from_json,
    event_to_json,
)

PRICING = Pricing(4.0)


def meter() -> LogTokenMeter:
    return LogTokenMeter(PRICING)


class Log:
    """A session that is written by hand."""

    def __init__(self) -> None:
        self.session = Session()
        self.step = 0
        self.session.append("turn/start", TurnStart(1))

    def begin(self) -> None:
        self.step += 1
        self.session.append("step/start", StepStart(1, self.step))

    def end(self) -> None:
        self.session.append("step/end", StepEnd(1, self.step))

    def header(self, **fields: Any) -> None:
        header = EpochHeader(config=LlmCallConfig(provider="p", model="m"), **fields)
        self.session.append("request/header", RequestHeader(header, "change"))

    def say(self, text: str) -> SessionEvent:
        message = create_user_message(text)
        return self.session.append("user/message", message, surface_op="append")

    def answer(self, text: str, usage: Usage | None = None) -> SessionEvent:
        message = create_assistant_message(text, "p", "m")
        payload = AssistantMessage(1, self.step, message, usage)
        return self.session.append("assistant/message", payload, surface_op="append")

    def compact(self, first: SessionEvent, last: SessionEvent, text: str) -> SessionEvent:
        return self.session.append(
            "user/message",
            create_user_message(text),
            surface_op=Replace(first.seq, last.seq),
            sources=Sources([(first.seq, last.seq)]),
        )


def price(text: str) -> int:
    return PRICING.message(create_user_message(text))


def test_every_block_is_priced_by_its_json() -> None:
    """M-081: built-in ones and those of plugins alike."""
    image = UnknownBlock("image", {"type": "image", "attachment": "x" * 400})
    assert PRICING.message(create_user_message([image])) > 100
    assert PRICING.message(create_tool_result_message("a", "x" * 400)) > 100
    assert price("日本語" * 40) > price("abc" * 40)


def test_an_empty_log_has_an_empty_measurement_that_stays_so() -> None:
    """M-081: later events do not reach it, and nobody can change it."""
    log = Log()
    measured = meter().measure(log.session)
    assert measured == Measurement(0, 0, 0, 0, (), False)
    log.say("hello")
    assert measured.total == 0
    with pytest.raises(AttributeError):
        measured.total = 1  # type: ignore[misc]  # that is the point


def test_header_tools_and_surface_are_priced_without_a_count() -> None:
    """M-082: and their sum is the total."""
    log = Log()
    schema = ToolSchema("add", "Adds two numbers", {"type": "object"})
    log.header(system="Be brief.", tools=(schema,), message_prefix=(create_user_message("p"),))
    one, two = log.say("hello"), log.say("and more")
    measured = meter().measure(log.session)
    assert measured.surface == ((one.seq, price("hello")), (two.seq, price("and more")))
    assert measured.system == PRICING.text("Be brief.")
    assert measured.tools == PRICING.tools([schema])
    assert measured.prefix == price("p")
    parts = measured.system + measured.tools + measured.prefix
    assert measured.total == parts + price("hello") + price("and more")
    assert not measured.counted


def test_a_question_what_if_leaves_the_parts_as_they_are() -> None:
    """M-082, M-083: it is answered by estimates alone; an unknown node is refused."""
    log, counting = Log(), meter()
    node = log.say("a long story" * 50)
    log.begin()
    log.answer("yes", Usage(500, 10))
    short: dict[int, list[Message]] = {node.seq: [create_user_message("short")]}
    measured = counting.measure(log.session, replaced=short)
    plain = counting.measure(log.session)
    assert measured.surface == plain.surface
    assert (measured.counted, plain.counted) == (False, True)
    answer = PRICING.message(create_assistant_message("yes", "p", "m"))
    assert measured.total == price("short") + answer
    with pytest.raises(ValueError, match="no node 99"):
        counting.measure(log.session, replaced={99: []})


def test_the_providers_count_is_the_base_and_what_followed_is_estimated() -> None:
    """M-083: its input buckets are disjoint, its output is in the context now."""
    log = Log()
    log.say("hi")
    log.begin()
    log.answer("yes", Usage(100, 7, cache_read_tokens=1000, cache_write_tokens=50))
    assert meter().measure(log.session).total == 1157
    log.say("more")
    assert meter().measure(log.session).total == 1157 + price("more")


def test_the_latest_count_wins() -> None:
    """M-083: whoever gave it, also behind a switch of the model."""
    log = Log()
    log.begin()
    log.answer("one", Usage(100, 1))
    log.answer("two", Usage(300, 1))
    log.answer("three")
    answer = PRICING.message(create_assistant_message("three", "p", "m"))
    assert meter().measure(log.session).total == 301 + answer


def test_a_rewrite_changes_the_count_by_the_difference() -> None:
    """M-083: and where the count would not even cover what was removed, it is no base any more."""
    log = Log()
    first, last = log.say("long" * 100), log.say("story" * 100)
    log.begin()
    answer = log.answer("ok", Usage(1000, 0))
    log.end()
    log.compact(first, last, "short")
    removed = price("long" * 100) + price("story" * 100)
    assert meter().measure(log.session).total == 1000 - removed + price("short")
    small = Log()
    first = small.say("long" * 400)
    small.begin()
    small.answer("ok", Usage(10, 0))
    small.compact(first, first, "short")
    measured = meter().measure(small.session)
    assert not measured.counted
    assert measured.total == sum(tokens for _, tokens in measured.surface)
    assert answer.seq


def test_another_header_ends_the_count() -> None:
    """M-083: an equal one does not; a count of nothing is none."""
    log = Log()
    log.header(system="a")
    log.begin()
    log.answer("ok", Usage(1000, 0))
    log.header(system="a")
    assert meter().measure(log.session).counted
    log.header(system="b")
    assert not meter().measure(log.session).counted
    log.answer("ok", Usage(0, 5))
    assert not meter().measure(log.session).counted


def test_a_loaded_log_is_followed_as_a_live_one() -> None:
    """M-084: catch-up, in one go or event by event."""
    log, live = Log(), meter()
    log.say("hi")
    live.measure(log.session)
    log.begin()
    log.answer("yes", Usage(100, 7))
    loaded = Session(seed=[event_from_json(event_to_json(event)) for event in log.session.events])
    loaded_events = list(loaded.events)
    assert loaded_events[-1].type == "session/end-seed"
    assert meter().measure(loaded) == live.measure(log.session)


def test_an_event_that_does_not_follow_is_refused_and_changes_nothing() -> None:
    """M-084: an answer outside its step, a replacement of nothing, a gap; each time again."""
    log, counting = Log(), meter()
    log.say("hi")
    before = counting.measure(log.session)
    log.step = 7
    log.answer("outside", Usage(1, 1))
    for _ in range(2):
        with pytest.raises(UnreadableLogError, match="step 7 of turn 1 is not open"):
            counting.measure(log.session)
    assert before == meter().measure(Session(seed=list(log.session.events)[:2]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"type": "step/end", "data": {"turn": 1, "step": 2}}, "not open"),
        ({"type": "step/start", "data": {"turn": 1, "step": 2}}, "has not ended"),
        (
            {"seq": 9, "type": "turn/end", "data": {"turn": 1, "reason": {"kind": "completed"}}},
            "next",
        ),
        (
            {
                "type": "user/message",
                "surfaceOp": {"op": "replace", "start": 0, "end": 0},
                "sourceEventSeqs": [0],
                "data": create_user_message("x").to_wire(),
            },
            "no node 0",
        ),
    ],
)
def test_malformed_steps_references_and_replacements_are_refused(
    data: dict[str, Any], reason: str
) -> None:
    """M-084: as a log from elsewhere may hold them."""
    from terret_plugin_token_meter._meter import Follower
    from terret_sessions import event_from_wire

    follower = Follower(PRICING)
    log = Log()
    log.begin()
    follower.catch_up(log.session.events)
    event = event_from_wire({"seq": 2, "time": 0, **data})
    with pytest.raises(UnreadableLogError, match=reason):
        follower.catch_up([*log.session.events, event])
    assert follower.seen == 2
