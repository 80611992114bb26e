"""What the grammar accepts, what it refuses, and how many mistakes it sees."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from loop_logs import Log
from terret_plugin_loop_events import Acceptor, LoopGrammarError, check
from terret_sessions import Aborted, CancelCause, Completed, Denied, MaxSteps

Wire = Mapping[str, Any]
Fields = dict[str, Any]
ORIGIN = {"sessionId": "kid", "agent": "helper", "callId": "k"}
BELOW = {"tenant": "acme", "environment": "test", "agent": "helper"}


def answer(log: Log) -> Log:
    return log.step("hi").say("Hello.").end()


def tools(log: Log) -> Log:
    log.step("hi").say("Let me see.", "a:t", "b:t", "c:u").decide("a", "t").decide("b", "t")
    log.decide("c", "u", "deny").result("a", "1").result("b", "Error: x", "E")
    return log.result("c", "no", "DENIED").stop().step().say("ok").end()


def denial(log: Log) -> Log:
    log.step("hi").say("", "a:slow", "b:buy", "c:sell").decide("a", "slow").ask("p", "b", "buy")
    log.answer("p", "rejected").decide("b", "buy", "deny", reason="why - human denied")
    log.result("a", "1").result("b", "no", "DENIED")
    log.result("c", "no", "SKIPPED_SIBLING_DENIED", denied=["buy"])
    return log.end(Denied(("buy",)))


def people(log: Log) -> Log:
    log.step("hi").say("", "a:helper", "b:buy").decide("a", "helper")
    log.ask("p", "k", "buy", scope=BELOW, origin=ORIGIN).answer("p").ask("q", "b", "buy")
    log.answer("q").decide("b", "buy", reason="why - human approved")
    asked = {"callId": "a", "turn": 1, "step": 1, "question": "Which?", "agent": "helper"}
    log.write("question/asked", id="r", **asked).result("a", "1").result("b", "2")
    return log.stop().step().say("ok").end()


def skill(log: Log) -> Log:
    log.step("hi").say("", "a:Skill", "b:t").decide("a", "Skill").decide("b", "t")
    log.write("skill/loaded", turn=1, step=1, skill="deploy", callId="a", trigger="model")
    return log.result("a", "# x").result("b", "2").stop().step().say("ok").end()


def limit(log: Log) -> Log:
    for _ in range(2):
        log.step("hi").say("", "a:t").decide("a", "t").result("a", "1").stop()
    return log.end(MaxSteps(2))


def cancelled(log: Log) -> Log:
    log.step("hi").say("", "a:t", "b:t").decide("a", "t").decide("b", "t")
    log.result("a", "x", "ABORTED").result("b", "x", "ABORTED")
    return log.end(Aborted(CancelCause("user")))


def compacted(log: Log) -> Log:
    log.step("one").say("two").stop().queue("on")
    seqs = log.session.surface.seqs
    return log.compact(seqs[0], seqs[1], turn=1).step("three").say("four").end()


SCENARIOS = [answer, tools, denial, people, skill, limit, cancelled, compacted]


def trace(scenario: Callable[[Log], Log]) -> list[Wire]:
    return scenario(Log().start()).events


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_what_the_fold_gives_is_accepted(scenario: Callable[[Log], Log]) -> None:
    """E-074: With skills, asks, failures, overlap, compaction and a cancel."""
    check(trace(scenario), agent="shop")
    check(trace(scenario))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_every_beginning_of_a_turn_is_accepted(scenario: Callable[[Log], Log]) -> None:
    """The events so far are a prefix, and no turn before its end."""
    events = trace(scenario)
    for length in range(len(events)):
        check(events[:length], agent="shop", complete=False)
        with pytest.raises(LoopGrammarError, match="not over") as missing:
            check(events[:length], agent="shop")
        assert (missing.value.index, missing.value.event) == (length, None)


ERROR: Fields = {"type": "error", "error": "x"}


UNASKED = [answer, tools, skill, limit, cancelled, compacted]
"""Where somebody is asked, a decision by itself may be that of a call in a running body."""


@pytest.mark.parametrize("scenario", UNASKED, ids=lambda each: each.__name__)
def test_an_error_may_cut_a_turn_but_no_pair(scenario: Callable[[Log], Log]) -> None:
    """E-005: What was sent before stays valid; pairs come from one log event."""
    firsts = ("actauth:decision", "toollane:result", "loop:done", "loop:max_turns")
    events = trace(scenario)
    for length in range(1, len(events)):
        if events[length - 1]["type"] in firsts:
            with pytest.raises(LoopGrammarError):
                check([*events[:length], ERROR], agent="shop")
        else:
            check([*events[:length], ERROR], agent="shop")


SESSION: Wire = {"type": "session", "sessionId": "s"}
CHECK: Fields = {
    "type": "budget:check", "action": "ok", "usedTokens": 1, "budgetTokens": 2, "ratio": 0.5
}  # fmt: skip
ALLOW: Fields = {
    "type": "actauth:decision",
    "tool": "t",
    "decision": "allow",
    "reason": "r",
}
DENY = ALLOW | {"decision": "deny"}
HUMAN = DENY | {"reason": "r - human denied"}
STARTED: Fields = {
    "type": "tool:started",
    "id": "a",
    "tool": "t",
    "args": {},
    "detailText": "r",
}
RESULT: Fields = {"type": "tool:result", "id": "a", "tool": "t", "statusText": "Approved."}
DENIED = RESULT | {"statusText": "Denied."}
SKIPPED = RESULT | {"statusText": "Skipped.", "id": "b"}
CANCELLED = RESULT | {"statusText": "Cancelled."}
RAW: Fields = {"type": "toollane:result", "name": "t", "summary": "1"}
SKIP: Fields = {"type": "loop:skipped", "name": "t", "deniedTools": ["t"]}
TEXT: Fields = {"type": "assistant:text", "text": "x"}
COMPACT: Fields = {"type": "prompt:compaction", "from": 3, "to": 1}
PENDING: Fields = {
    "type": "approval:pending",
    "id": "p",
    "tool": "t",
    "scope": {"agent": "shop"},
}
BELOW_PENDING = PENDING | {"scope": {"agent": "helper"}}
QUESTION: Fields = {"type": "question:pending", "id": "q"}
DONE: list[Fields] = [{"type": "loop:done", "text": "x"}, {"type": "done", "text": "x"}]
LIMIT: Fields = {"type": "loop:max_turns", "maxTurns": 1}
STOP: Fields = {"type": "loop:denied", "deniedTools": ["t"]}
RUN: list[Wire] = [SESSION, CHECK, ALLOW, STARTED]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([CHECK], "begins with session"),
        ([SESSION, SESSION], "was made"),
        ([SESSION, ALLOW], "none was made"),
        ([SESSION, {"type": "weather"}], "none was made"),
        ([SESSION, CHECK, {"type": "weather"}], "no place"),
        ([SESSION, {"type": "budget:check"}], "it has no 'action'"),
        ([SESSION, CHECK, *DONE, CHECK], "nothing follows"),
        ([SESSION, ERROR, ERROR], "nothing follows"),
        ([SESSION, CHECK, DONE[1]], "no place"),
        ([SESSION, CHECK, DONE[0], ERROR], "done follows"),
        ([SESSION, CHECK, DONE[0], DONE[1] | {"text": "y"}], "texts"),
        ([SESSION, CHECK, DONE[0], DONE[1] | {"stopReason": "denied"}], "left out"),
        ([SESSION, CHECK, LIMIT, DONE[1]], "max_turns"),
        ([SESSION, CHECK, CHECK, LIMIT], "2 model calls"),
        ([SESSION, CHECK | {"nudge": {}}], "nudge"),
        ([SESSION, CHECK | {"action": "nudge"}], "nudge"),
        ([SESSION, CHECK | {"ratio": 0.4}], "ratio"),
        ([SESSION, CHECK | {"budgetTokens": 0}], "ratio is 0"),
        ([SESSION, CHECK, *[COMPACT] * 4], "three"),
        ([SESSION, CHECK, COMPACT | {"to": 4}], "shortens"),
        ([SESSION, CHECK, TEXT, COMPACT], "before the response"),
        ([SESSION, CHECK, TEXT, TEXT], "one text"),
        ([SESSION, CHECK, TEXT | {"text": ""}], "empty"),
        ([*RUN, TEXT], "before the decisions"),
        ([SESSION, CHECK, ALLOW | {"decision": "ask"}], "allows or denies"),
        ([SESSION, CHECK, STARTED], "no place"),
        ([SESSION, CHECK, ALLOW, STARTED | {"detailText": "q"}], "followed by its tool:started"),
        ([SESSION, CHECK, ALLOW, STARTED | {"tool": "u"}], "followed by its tool:started"),
        ([SESSION, CHECK, ALLOW, DENIED], "followed by its tool:started"),
        ([SESSION, CHECK, DENY, CHECK], "followed by its tool:result"),
        ([SESSION, CHECK, DENY, STARTED], "followed by its tool:result"),
        ([SESSION, CHECK, DENIED], "missing"),
        ([*RUN, ALLOW, STARTED], "used once"),
        ([*RUN, CHECK], "running: a"),
        ([*RUN, DONE[0]], "running: a"),
        ([*RUN, RESULT], "missing"),
        ([*RUN, RAW, CHECK], "pair"),
        ([*RUN, RAW, ALLOW], "followed by its tool:result"),
        ([*RUN, RAW | {"name": "u"}, RESULT], "result of u"),
        ([*RUN, RAW, RESULT | {"statusText": "Error."}], "Approved"),
        ([*RUN, RAW | {"summary": "ERROR: x"}, RESULT], "Error"),
        ([*RUN, RAW, RESULT | {"id": "b"}], "b does not run"),
        ([*RUN, RAW, RESULT | {"args": {"x": 1}}], "arguments differ"),
        ([*RUN, RAW, RESULT, RAW, RESULT], "does not run"),
        ([SESSION, CHECK, CANCELLED], "does not run"),
        ([*RUN, CANCELLED | {"tool": "u"}], "a call of t"),
        ([SESSION, CHECK, SKIP, SKIPPED], "denied calls"),
        ([SESSION, CHECK, DENY, DENIED, SKIP, SKIPPED | {"tool": "u"}], "result of t"),
        ([SESSION, CHECK, DENY, DENIED, SKIP, DENIED], "Skipped"),
        ([SESSION, CHECK, DENY, DENIED, SKIP | {"deniedTools": []}, SKIPPED], "denied calls"),
        ([SESSION, CHECK, DENY, DENIED, SKIP, SKIPPED, ALLOW, STARTED], "stopping"),
        ([SESSION, CHECK, DENY, DENIED, SKIP, SKIPPED, PENDING], "stopping"),
        ([SESSION, CHECK, DENY, DENIED, SKIP, SKIPPED, CHECK], "the turn ends"),
        ([SESSION, CHECK, DENY, DENIED, SKIP, SKIPPED, DONE[0]], "loop:denied"),
        ([SESSION, CHECK, HUMAN, DENIED, CHECK], "the turn ends"),
        ([SESSION, CHECK, STOP], "denied calls"),
        ([SESSION, CHECK, DENY, DENIED, STOP | {"deniedTools": ["u"]}], "denied calls"),
        ([SESSION, CHECK, PENDING, CHECK], "approval is open"),
        ([SESSION, CHECK, PENDING, PENDING | {"id": "r"}], "one item"),
        ([SESSION, CHECK, PENDING, ALLOW | {"tool": "u"}, STARTED | {"tool": "u"}], "t waits"),
        ([SESSION, CHECK, PENDING, ALLOW, STARTED, PENDING], "used once"),
        ([*RUN, PENDING | {"id": "a"}], "by no call"),
        ([*RUN, BELOW_PENDING, ALLOW | {"tool": "u"}, RAW], "t waits"),
        ([SESSION, CHECK, BELOW_PENDING], "nothing runs"),
        ([SESSION, CHECK, QUESTION], "from a running call"),
        ([*RUN, PENDING, QUESTION], "one item"),
    ],
)
def test_what_breaks_the_order_is_refused(events: list[Wire], problem: str) -> None:
    """E-002 to E-007, E-020 to E-029, E-040 to E-054, E-062 to E-068: Each rule by itself."""
    check(events[:-1], agent="shop", complete=False)
    with pytest.raises(LoopGrammarError, match=problem) as refused:
        check(events, agent="shop", complete=False)
    assert refused.value.index == len(events) - 1


def test_started_before_pending_is_refused() -> None:
    """E-075: The example that no engine can follow."""
    events = [*RUN, PENDING, RAW, RESULT, *DONE]
    with pytest.raises(LoopGrammarError):
        check(events, agent="shop")


def test_results_may_not_overtake_but_a_late_decision_may() -> None:
    """E-052: A call that was held is started and finished in one go."""
    second = [ALLOW, STARTED | {"id": "b"}]
    check([*RUN, *second, RAW, RESULT | {"id": "b"}], complete=False)
    late = [*RUN, *second, ALLOW, STARTED | {"id": "c"}]
    check([*late, RAW, RESULT | {"id": "c"}], complete=False)
    with pytest.raises(LoopGrammarError, match="order of the calls"):
        check([*late, RAW, RESULT | {"id": "b"}], complete=False)


def test_a_turn_can_be_accepted_as_it_comes() -> None:
    """E-074: Event by event."""
    acceptor = Acceptor("shop")
    for event in trace(tools):
        acceptor.feed(event)
    acceptor.finish()


def mutations(events: list[Wire]) -> Iterator[tuple[str, list[Wire]]]:
    for index in range(len(events)):
        yield "drop", events[:index] + events[index + 1 :]
        yield "duplicate", [*events[: index + 1], *events[index:]]
        if index and events[index] != events[index - 1]:
            swapped = events.copy()
            swapped[index - 1], swapped[index] = events[index], events[index - 1]
            yield "swap", swapped


def refused(events: list[Wire]) -> bool:
    try:
        check(events, agent="shop")
    except LoopGrammarError:
        return True
    return False


SEEN = {"drop": 0.85, "duplicate": 0.83, "swap": 0.98}
"""How many mistakes were seen when this was written; v1 cannot show the rest."""


def test_single_mistakes_are_seen_as_often_as_before() -> None:
    """E-551: The rate of refused drops, duplicates and swaps does not fall."""
    seen: dict[str, list[bool]] = {}
    for scenario in SCENARIOS:
        for kind, events in mutations(trace(scenario)):
            seen.setdefault(kind, []).append(refused(events))
    rates = {kind: sum(results) / len(results) for kind, results in seen.items()}
    assert {kind: rate >= SEEN[kind] for kind, rate in rates.items()} == dict.fromkeys(
        SEEN, True
    ), rates


def test_a_turn_without_a_model_call_is_accepted() -> None:
    """E-027: Its input was taken away before the first step."""
    check(Log().start().end(Completed()).events)
