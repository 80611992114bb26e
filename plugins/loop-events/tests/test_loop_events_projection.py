"""What the log gives on the wire, event by event."""

import pytest

from loop_logs import Log, lines, project
from terret_llm import LlmFailure, UnknownBlock, create_tool_result_message
from terret_plugin_loop_events import Projection, check, validate
from terret_sessions import (
    Aborted,
    Blocked,
    CancelCause,
    Completed,
    Denied,
    Errored,
    Interrupted,
    MaxSteps,
    MaxTokens,
    OtherEnd,
    Sessions,
    ToolResult,
    TurnEndReason,
)
from terret_testing import running_harness


@pytest.fixture
def log() -> Log:
    return Log().start()


def accepted(log: Log) -> list[str]:
    """The lines of a turn whose events keep grammar and schema."""
    events = log.events
    check(events, agent="shop")
    for event in events:
        validate(event)
    return lines(events)


def test_a_turn_is_framed_by_session_and_done(log: Log) -> None:
    """E-001, E-002, E-006, E-008, E-027, E-086: The answer is that of the finished turn."""
    assert accepted(log.step("hi").say("Hello.").end()) == [
        "session s",
        "budget:check ok 0 0",
        "loop:done Hello.",
        "done Hello.",
    ]


def test_every_turn_begins_with_session(log: Log) -> None:
    """E-002, E-086: Also one without a step."""
    log.end().start().step("hi").say("Hello.").end()
    assert [each for each in log.lines if each.startswith("session")] == ["session s"] * 2


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Completed(), ["loop:done yes", "done yes"]),
        (MaxTokens(), ["loop:done yes", "done yes"]),
        (Blocked("rude"), ["error blocked: rude"]),
        (Blocked(), ["error blocked"]),
        (Aborted(CancelCause("user")), ["error aborted: user"]),
        (Aborted(CancelCause("hook", "shutdown")), ["error aborted: hook: shutdown"]),
        (Errored(LlmFailure("too many requests", "RATE_LIMITED")), ["error too many requests"]),
        (Interrupted(), ["error interrupted"]),
        (OtherEnd("paused", {}), ["error paused"]),
    ],
)
def test_the_reason_of_the_end_decides_the_terminal(
    log: Log, reason: TurnEndReason, expected: list[str]
) -> None:
    """E-003 to E-007, E-031, E-091: Exactly one of done and error."""
    assert accepted(log.step("hi").say("yes").end(reason))[2:] == expected


def test_policies_end_a_turn_with_a_fixed_sentence(log: Log) -> None:
    """E-007, E-009, E-025, E-067: The limit or the tools are named, the same on replay."""
    log.step("hi").say("", "a:buy").decide("a", "buy", "deny").result("a", "no", "DENIED").end(
        MaxSteps(1)
    )
    log.start().step("hi").say("", "b:buy").decide("b", "buy", "deny").result("b", "no", "DENIED")
    log.end(Denied(("buy", "sell")))
    ends = [each for each in log.lines if each.startswith(("loop:", "done"))]
    assert ends == [
        "loop:max_turns 1",
        "done Stopped after 1 model call, the limit of a turn. max_turns",
        'loop:denied ["buy","sell"]',
        "done Stopped: a person denied buy, sell. denied",
    ]
    assert log.lines == lines(project(log.session))


def test_what_a_plugin_raised_is_not_public(log: Log) -> None:
    """E-091: A failure without a code is told without its text."""
    failure = LlmFailure("FileNotFoundError: secrets/key.pem", "UNKNOWN")
    (error,) = [each for each in log.end(Errored(failure)).lines if each.startswith("error")]
    assert error == "error internal error: the log of the harness has the details"


def test_a_call_is_decided_started_and_finished(log: Log) -> None:
    """E-040, E-041, E-047, E-050, E-089: Decisions come from the record, results from the log."""
    log.step("1+2?").say("Let me see.", 'a:add:{"x":1}').call("a", "add").decide("a", "add")
    log.result("a", "3").stop().step().say("3").end()
    assert accepted(log) == [
        "session s",
        "budget:check ok 0 0",
        "assistant:text Let me see.",
        "actauth:decision add allow",
        'tool:started a add {"x":1}',
        "toollane:result add 3",
        'tool:result a add {"x":1} Approved.',
        "budget:check ok 0 0",
        "loop:done 3",
        "done 3",
    ]
    started = next(event for event in log.events if event["type"] == "tool:started")
    assert started["detailText"] == "why"


def test_a_denied_call_has_its_result_at_once(log: Log) -> None:
    """E-042, E-066: The result that the model reads is silent, and the turn goes on."""
    log.step("hi").say("", "a:buy").decide("a", "buy", "deny").result("a", "Error: no", "DENIED")
    assert accepted(log.stop().step().say("Well.").end())[2:4] == [
        "actauth:decision buy deny",
        "tool:result a buy {} Denied.",
    ]


@pytest.mark.parametrize(
    ("text", "code", "summary", "status"),
    [
        ("3", None, "3", "Approved."),
        ('{"a":1}', None, '{"a":1}', "Approved."),
        ("plain", None, '"plain"', "Approved."),
        ("ERROR: no", None, '"ERROR: no"', "Approved."),
        ("NaN", None, '"NaN"', "Approved."),
        ("", None, '""', "Approved."),
        ("Error: broken", "E", "ERROR: broken", "Error."),
    ],
)
def test_the_summary_is_json_or_an_error(
    log: Log, text: str, code: str | None, summary: str, status: str
) -> None:
    """E-051: A value that looks like an error is not mistaken for one."""
    log.step("hi").say("", "a:t").decide("a", "t").result("a", text, code).stop()
    raw, result = log.events[-2:]
    assert (raw["summary"], result["statusText"]) == (summary, status)


def test_a_result_that_is_no_text_is_told_as_json(log: Log) -> None:
    """E-051: Blocks of other kinds keep their form."""
    log.step("hi").say("", "a:t").decide("a", "t")
    image = UnknownBlock("image", {"type": "image", "url": "data:"})
    payload = ToolResult(1, 1, create_tool_result_message("a", (image,)))
    log.session.append("tool/result", payload, surface_op="append")
    assert log.lines[-2] == 'toollane:result t [{"type":"image","url":"data:"}]'


@pytest.mark.parametrize("text", ["x" * 40, "é" * 40, "x" + "🙂" * 12])
def test_a_long_summary_is_cut_between_characters(log: Log, text: str) -> None:
    """E-055: With the number of bytes left out."""
    log.step("hi").say("", "a:t").decide("a", "t").result("a", text)
    fold = Projection("s", "shop", summary_max_bytes=20)
    events = [given for event in log.session.events for given in fold.feed(event)]
    (raw,) = [event for event in events if event["type"] == "toollane:result"]
    kept, _, marker = raw["summary"].partition(" [")
    assert len(kept.encode()) in range(17, 21)
    assert marker == f"{len(text.encode()) + 2 - len(kept.encode())} bytes left out]"


def test_edited_arguments_are_shown_in_started_and_result(log: Log) -> None:
    """E-047, E-350: The pending item has what the model wrote."""
    log.step("hi").say("", 'a:buy:{"n":9}').ask("p", "a", "buy", args={"n": 9}).answer("p")
    log.decide("a", "buy", args={"n": 1}).result("a").stop()
    assert log.lines[2:] == [
        'approval:pending p buy {"n":9}',
        "actauth:decision buy allow",
        'tool:started a buy {"n":1}',
        'toollane:result buy "ok"',
        'tool:result a buy {"n":1} Approved.',
    ]


def test_a_pending_item_says_whose_rules_apply_and_when_it_was_asked(log: Log) -> None:
    """E-014, E-043, E-046: Time and id come from the log."""
    pending = log.step("hi").say("", "a:buy").ask("p", "a", "buy").events[-1]
    asked = log.session.events[-1]
    assert pending["scope"] == {"tenant": "acme", "environment": "test", "agent": "shop"}
    assert pending["requestedAt"].endswith(f"{asked.time % 1000:03}Z")
    assert pending == project(log.session)[-1]
    assert pending["id"] != "a"


@pytest.mark.parametrize("arguments", ["nope", "[1]", '"x"', "NaN", "{"])
def test_arguments_that_are_no_object_are_left_out(log: Log, arguments: str) -> None:
    """E-058: The call is denied, and the turn goes on."""
    log.step("hi").say("", f"a:t:{arguments}").decide("a", "t", "deny", source="validation")
    log.result("a", "Error: bad", "INVALID_ARGS").stop().step().say("Sorry.").end()
    assert accepted(log)[3] == "tool:result a t Denied."


def test_empty_arguments_are_an_empty_object(log: Log) -> None:
    """E-059: No text at all counts as {}."""
    log.step("hi").say("", "a:t: ").decide("a", "t")
    assert log.lines[-1] == "tool:started a t {}"


def test_calls_are_matched_by_id(log: Log) -> None:
    """E-048, E-052, E-053: Two calls of one tool overlap; results follow the model's order."""
    log.step("hi").say("", "a:t:{}", "b:t:[]", "c:u").decide("a", "t").decide("b", "t")
    log.decide("c", "u").result("a", "1").result("b", "2").result("c", "3").stop().step()
    log.say("ok").end()
    assert [each for each in accepted(log) if each.startswith("tool:result")] == [
        "tool:result a t {} Approved.",
        "tool:result b t Approved.",
        "tool:result c u {} Approved.",
    ]


def test_an_id_may_be_used_again_in_a_later_answer(log: Log) -> None:
    """E-049: Each answer has calls of its own."""
    for text in ("1", "2"):
        log.step("hi").say("", "a:t").decide("a", "t").result("a", text).stop()
    log.step().say("ok").end()
    assert [each for each in accepted(log) if each.startswith("toollane")] == [
        "toollane:result t 1",
        "toollane:result t 2",
    ]


def test_a_person_that_denies_lets_the_siblings_be_skipped(log: Log) -> None:
    """E-064, E-065, E-067, E-068: Started ones end with their real result."""
    log.step("hi").say("", "a:slow", "b:buy", "c:sell").decide("a", "slow")
    log.ask("p", "b", "buy").answer("p", "rejected")
    log.decide("b", "buy", "deny", source="human", reason="why - human denied")
    log.result("a", "done").result("b", "Error: denied: why - human denied", "DENIED")
    log.result("c", "Error: skipped: buy was denied", "SKIPPED_SIBLING_DENIED", denied=["buy"])
    assert accepted(log.end(Denied(("buy",))))[3:] == [
        "tool:started a slow {}",
        "approval:pending p buy {}",
        "actauth:decision buy deny",
        "tool:result b buy {} Denied.",
        'toollane:result slow "done"',
        "tool:result a slow {} Approved.",
        'loop:skipped sell ["buy"]',
        "tool:result c sell {} Skipped.",
        'loop:denied ["buy"]',
        "done Stopped: a person denied buy. denied",
    ]


def test_a_cancelled_call_says_so_and_an_undecided_one_nothing(log: Log) -> None:
    """E-069: Then the turn ends with an error."""
    log.step("hi").say("", "a:slow", "b:t", "c:u").decide("a", "slow").decide("b", "t")
    log.result("a", "Error: x", "ABORTED").result("b", "Error: x", "ABORTED_BEFORE_DISPATCH")
    log.result("c", "Error: x", "ABORTED_BEFORE_DISPATCH").end(Aborted(CancelCause("user")))
    assert accepted(log)[2:] == [
        "actauth:decision slow allow",
        "tool:started a slow {}",
        "actauth:decision t allow",
        "tool:started b t {}",
        "tool:result a slow {} Cancelled.",
        "tool:result b t {} Cancelled.",
        "error aborted: user",
    ]


@pytest.mark.parametrize("code", ["TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"])
def test_what_a_repair_answers_is_silent(log: Log, code: str) -> None:
    """E-091: After a crash only the error is added."""
    log.step("hi").say("", "a:t").decide("a", "t")
    before = log.lines
    log.result("a", "Error: x", code, name="Interrupted").end(Interrupted())
    assert log.lines == [*before, "error interrupted"]


def test_an_abandoned_call_is_an_error(log: Log) -> None:
    """E-054: A result that is unknown while the process lives is told."""
    log.step("hi").say("", "a:t").decide("a", "t")
    log.result("a", "Error: it goes on", "TOOL_OUTCOME_UNKNOWN", name="ToolError")
    assert log.lines[-2:] == ["toollane:result t ERROR: it goes on", "tool:result a t {} Error."]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (None, ["decision t allow", "started a t {}", "result t 3", "result a t {} Approved."]),
        ("E", ["decision t allow", "started a t {}", "result t ERROR: 3", "result a t {} Error."]),
        ("DENIED", ["decision t deny", "result a t {} Denied."]),
        ("UNKNOWN_TOOL", ["decision t deny", "result a t {} Denied."]),
        ("INVALID_ARGS", ["decision t deny", "result a t {} Denied."]),
        ("ABORTED", ["decision t allow", "started a t {}", "result a t {} Cancelled."]),
    ],
)
def test_without_recorded_decisions_the_result_implies_one(
    log: Log, code: str | None, expected: list[str]
) -> None:
    """E-093: With the reason `no decision recorded`."""
    log.step("hi").say("", "a:t").result("a", "3", code).stop().step().say("ok").end()
    given = [each.partition(":")[2] for each in accepted(log)[2:-3]]
    decision = next(event for event in log.events if event["type"] == "actauth:decision")
    assert (given, decision["reason"]) == (expected, "no decision recorded")


def test_a_loaded_skill_is_all_that_is_told_of_its_call(log: Log) -> None:
    """E-060: It takes the place of decision, started, raw and result."""
    log.step("hi").say("", "a:Skill", "b:t").decide("a", "Skill").decide("b", "t")
    log.write("skill/loaded", turn=1, step=1, skill="deploy", callId="a", trigger="model")
    log.result("a", "# Deploy").result("b", "3").stop().step().say("ok").end()
    assert [each for each in accepted(log) if "Skill" in each or "skill" in each] == [
        "skill:loaded deploy"
    ]


@pytest.mark.parametrize(
    ("text", "code", "tail"),
    [
        (
            "Error: none",
            "E",
            ["toollane:result Skill ERROR: none", "tool:result a Skill {} Error."],
        ),
        ("all", None, ['toollane:result Skill "all"', "tool:result a Skill {} Approved."]),
        ("Error: x", "ABORTED", ["tool:result a Skill {} Cancelled."]),
    ],
)
def test_a_skill_call_that_loads_nothing_is_an_ordinary_call(
    log: Log, text: str, code: str | None, tail: list[str]
) -> None:
    """E-061: Its decision was held until now; a call beside it may have overtaken it."""
    log.step("hi").say("", "a:Skill", "b:t").decide("a", "Skill").decide("b", "t")
    log.result("a", text, code)
    expected = ["actauth:decision t allow", "tool:started b t {}"]
    expected += ["actauth:decision Skill allow", "tool:started a Skill {}", *tail]
    assert log.lines[2:] == expected
    check(log.events, agent="shop", complete=False)


def test_a_skill_call_that_was_asked_about_is_an_ordinary_call(log: Log) -> None:
    """E-043: A pending approval needs its decision."""
    log.step("hi").say("", "a:Skill").ask("p", "a", "Skill").answer("p").decide("a", "Skill")
    log.write("skill/loaded", turn=1, step=1, skill="deploy", callId="a", trigger="model")
    log.result("a", "# Deploy").stop().step().say("ok").end()
    assert "skill:loaded deploy" not in accepted(log)
    assert "tool:result a Skill {} Approved." in log.lines


def test_a_skill_that_a_person_loaded_is_not_told(log: Log) -> None:
    """It belongs to no call."""
    log.write("skill/loaded", turn=1, step=1, skill="deploy", trigger="user")
    assert log.lines == ["session s"]


def test_text_that_is_followed_by_another_step_comes_before_its_check(log: Log) -> None:
    """E-029, E-030, E-031: It is held until it is known what it was."""
    log.step("hi").say("First.").stop().queue("and now?").step("and now?").say("Second.").end()
    assert accepted(log) == [
        "session s",
        "budget:check ok 0 0",
        "assistant:text First.",
        "budget:check ok 0 0",
        "loop:done Second.",
        "done Second.",
    ]


def test_several_text_blocks_are_one_text(log: Log) -> None:
    """E-032: Their concatenation."""
    log.step("hi").say("One. ", "a:t").decide("a", "t").result("a").end()
    assert log.lines[2] == "assistant:text One. "


def test_a_tool_that_concludes_the_turn_gives_the_last_text_or_none(log: Log) -> None:
    """E-028: Text beside calls is not the answer."""
    log.step("hi").say("Bye.", "a:t").decide("a", "t").result("a").end()
    assert accepted(log)[-1] == "done "
    log.start().step("hi").say("Before.").stop().step("go on").say("", "a:t").decide("a", "t")
    assert log.result("a").end().lines[-1] == "done Before."


def test_an_answer_that_was_cut_off_is_joined_with_its_continuation(log: Log) -> None:
    """Parts are held until the text is whole."""
    log.step("hi").say("One, ").stop().queue("go on", "recovery").step().say("two, ").stop()
    log.queue("go on", "recovery").step().say("three.").end(MaxTokens())
    assert accepted(log)[-1] == "done One, two, three."
    assert "assistant:text" not in " ".join(log.lines)


def test_a_continuation_that_calls_tools_tells_the_joined_text(log: Log) -> None:
    """E-029: The parts go with the text beside the calls."""
    log.step("hi").say("One, ").stop().queue("go on", "recovery").step().say("two.", "a:t")
    log.decide("a", "t").result("a").stop().step().say("ok").end()
    assert accepted(log)[3] == "assistant:text One, two."


def test_text_that_a_limit_cut_short_is_told(log: Log) -> None:
    """E-030: A limit or a denial has no other place for it."""
    log.step("hi").say("So far.").end(MaxSteps(1))
    assert accepted(log)[2:4] == ["assistant:text So far.", "loop:max_turns 1"]


def test_an_interrupted_answer_is_not_told(log: Log) -> None:
    """E-034: A cancelled call leaves its check, then the error."""
    log.step("hi").say("Half a", interrupted=True).end(Aborted(CancelCause("user")))
    assert accepted(log)[1:] == ["budget:check ok 0 0", "error aborted: user"]


def test_a_request_that_is_repeated_gives_no_second_check(log: Log) -> None:
    """E-020, E-021: One check for each step that calls the model."""
    here = {"retryId": "r", "turn": 1, "step": 1, "retry": 1}
    failure = {"message": "busy", "code": "SERVER"}
    policy = {"provider": "p", "mode": "normal", "policyKey": "k", "maxRetries": 5, "delayMs": 1}
    log.step("hi").write("llm/retry", **here, **policy, failure=failure)
    log.write("llm/retry-started", **here)
    assert accepted(log.say("ok").end())[1:3] == ["budget:check ok 0 0", "loop:done ok"]


def budget(log: Log, action: str = "ok", used: int = 5, budget: int = 10, **more: object) -> Log:
    measured = {"turn": 1, "step": 1, "action": action, "usedTokens": used, **more}
    return log.write("budget/checked", **measured, budgetTokens=budget)


def test_a_measured_check_is_held_until_the_step(log: Log) -> None:
    """E-022, E-023, E-087: The ratio is used by budget."""
    nudge = {"role": "user", "content": "be brief"}
    budget(log, "nudge", 7, nudge=nudge)
    assert log.lines == ["session s"]
    check_ = log.step("hi").say("ok").end().events[1]
    assert (check_["ratio"], check_["nudge"]) == (0.7, nudge)
    assert "nudge" not in budget(log.start()).step("hi").events[-1]


def test_a_check_whose_step_is_refused_is_not_told(log: Log) -> None:
    """E-386: Nor does it belong to the next turn."""
    budget(log).end(Blocked("no")).start().step("hi")
    assert log.lines == ["session s", "error blocked: no", "session s", "budget:check ok 0 0"]


def test_without_measurement_the_check_tells_what_is_known(log: Log) -> None:
    """E-033: The last usage and the window of the route; zeros when unknown."""
    log.step("hi").window(100).say("one", usage=25).stop().step("more").window(None)
    log.say("two").stop().step("more").say("three").end()
    assert [each for each in accepted(log) if each.startswith("budget")] == [
        "budget:check ok 0 0",
        "budget:check ok 25 100",
        "budget:check ok 25 0",
    ]
    assert [event["ratio"] for event in log.events if "ratio" in event] == [0, 0.25, 0]


def conversation(log: Log) -> Log:
    """Four messages, one of them an empty answer that no model sees."""
    log.step("one").say("two").stop().step("three").say("").end()
    return log.start()


def test_a_compaction_before_a_call_follows_its_check(log: Log) -> None:
    """E-024, E-087, E-088: Counts of messages, before and after."""
    conversation(log)
    seqs = log.session.surface.seqs
    budget(log, "over_hard_limit", 9).compact(seqs[0], seqs[-1], turn=2).step("hi").say("ok").end()
    assert log.lines[-5:] == [
        "session s",
        "budget:check over_hard_limit 9 10",
        "prompt:compaction 3 1",
        "loop:done ok",
        "done ok",
    ]


def test_a_compaction_after_a_rejection_comes_within_the_call(log: Log) -> None:
    """E-024: Without a second check."""
    conversation(log)
    first = log.session.surface.seqs[0]
    log.step("hi").compact(first, log.session.surface.seqs[1], turn=2).say("ok").end()
    assert log.lines[-5:-2] == ["session s", "budget:check ok 0 0", "prompt:compaction 4 3"]


def test_other_compactions_are_not_told(log: Log) -> None:
    """E-088: Manual, failed, and a prune; their replacements count all the same."""
    conversation(log).compact(0, 1, turn=2, error={"code": "X"}).end()
    seqs = log.session.surface.seqs
    log.compact(seqs[0], seqs[1], turn=None).write("compaction/prune", turn=2)
    assert not [each for each in log.lines if each.startswith("prompt")]
    log.start().compact(*log.session.surface.seqs[:2], turn=3)
    assert [each for each in log.lines if each.startswith("prompt")] == ["prompt:compaction 2 1"]


def test_a_nested_approval_is_decided_by_itself(log: Log) -> None:
    """E-063, E-044: With the child's name, without started or Denied."""
    origin = {"sessionId": "kid", "agent": "helper", "callId": "k"}
    scope = {"tenant": "acme", "environment": "test", "agent": "helper"}
    log.step("hi").say("", "a:helper").decide("a", "helper")
    for item, outcome in (("p", "allowed-once"), ("q", "timed-out")):
        log.ask(item, "k", "buy", scope=scope, origin=origin).answer(item, outcome)
    log.result("a", "bought").stop().step().say("ok").end()
    assert accepted(log)[4:8] == [
        "approval:pending p buy {}",
        "actauth:decision buy allow",
        "approval:pending q buy {}",
        "actauth:decision buy deny",
    ]
    reasons = [event["reason"] for event in log.events if event["type"] == "actauth:decision"]
    assert reasons[1:] == ["why - human approved", "why - nobody answered in time"]


def test_a_question_is_told_while_its_call_runs(log: Log) -> None:
    """E-062, E-370: With options if it has some; the answer is not on the wire."""
    log.step("hi").say("", "a:system_ask_user").decide("a", "system_ask_user")
    asked = {"id": "q", "callId": "a", "turn": 1, "step": 1, "question": "Which?", "agent": "shop"}
    log.write("question/asked", **asked).write(
        "question/asked", **asked | {"id": "r"}, options=["x"]
    )
    log.write("question/answered", id="q", outcome="answered", answer="secret")
    log.result("a", "x").stop().step().say("ok").end()
    questions = [event for event in log.events if event["type"] == "question:pending"]
    assert ["options" in each for each in questions] == [False, True]
    assert {each["sessionId"] for each in questions} == {"s"}
    assert "secret" not in " ".join(accepted(log))


def test_items_outside_of_a_turn_are_not_told(log: Log) -> None:
    """E-097: What a crash left open is closed after the turn."""
    log.step("hi").say("", "a:t").end(Interrupted()).ask("p", "a", "t").answer("p", "cancelled")
    log.write("question/asked", id="q", callId="a", turn=1, step=1, question="?", agent="shop")
    assert log.lines[-1] == "error interrupted"


async def test_what_a_fork_copied_gives_nothing_but_counts() -> None:
    """E-094: The parent's events update the state of the fold."""
    async with running_harness() as h:
        parent = Log(h.ctx[Sessions].create("parent"))
        parent.start().step("one").window(50).say("two", usage=10).end()
        child = Log(h.ctx[Sessions].fork("parent", child_id="child")).start().step("three")
        seqs = child.session.surface.seqs
        child.compact(seqs[0], seqs[1], turn=2)
        assert child.lines == ["session s", "budget:check ok 10 50", "prompt:compaction 3 2"]


def test_unknown_ignorable_events_change_nothing(log: Log) -> None:
    """E-084, E-011: Chunks, headers, todos and what other plugins write are not told."""
    log.step("hi").write("weather/changed", sun=True).say("ok").write("todo/write", todos=[])
    assert accepted(log.end()) == Log().start().step("hi").say("ok").end().lines


def test_rows_that_lack_what_they_should_have_do_not_stop_the_fold(log: Log) -> None:
    """E-084: Plugins write plain rows; a session can be shown whatever is in them."""
    log.write("budget/checked").step("hi").say("", "a:t").write("tool/decision")
    for type in ("approval/asked", "approval/decided", "question/asked", "skill/loaded"):
        log.write(type)
    log.write("compaction/start").write("compaction/summary").write("compaction/end")
    for event in log.events:
        validate(event)
    assert log.decide("a", "t").result("a").stop().step().say("ok").end().lines[-1] == "done ok"
