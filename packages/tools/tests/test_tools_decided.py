"""The last word on a call: what those who keep records hear, and what they may change."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from terret_context import Context, Next, Plugin, plugin
from terret_testing import Harness, running_harness
from terret_tools import (
    ABORTED_BEFORE_DISPATCH,
    APPROVAL,
    DECIDED,
    DENIED,
    INVALID_ARGS,
    PRE_EXECUTE,
    RESULT,
    UNKNOWN_TOOL,
    Allow,
    ApprovalOutcome,
    Ask,
    Decided,
    Decision,
    Deny,
    Executed,
    Grounds,
    ToolExec,
    ToolOutcome,
    Tools,
    tool,
)

RULE = Grounds(source="rule", reason="matched rule 'r'", rule="r")


class Answering:
    """An approval service with one answer."""

    def __init__(self, answer: ApprovalOutcome) -> None:
        self.answer = answer

    async def request(self, exec: ToolExec, ask: Ask) -> ApprovalOutcome:
        return self.answer

    def plugin(self) -> Plugin:
        @plugin(name="answering")
        def answering(ctx: Context) -> None:
            ctx.provide(APPROVAL, self)

        return answering


@asynccontextmanager
async def deciding(
    decision: Decision | Callable[[], Decision] = Allow, answer: ApprovalOutcome | None = None
) -> AsyncIterator[tuple[Harness, list[Decided]]]:
    async with running_harness(plugins=[Answering(answer).plugin()] if answer else []) as h:

        @tool
        async def buy(item: str) -> str:
            """Buy something."""
            return f"bought {item}"

        heard: list[Decided] = []

        async def hear(decided: Decided, call_next: Next[Allow | Deny]) -> Allow | Deny:
            heard.append(decided)
            return await call_next()

        h.ctx[Tools].register(buy)
        h.ctx.on(
            PRE_EXECUTE, lambda call, call_next: decision() if callable(decision) else decision
        )
        h.ctx.on(DECIDED, hear)
        yield h, heard


async def buy(h: Harness, **arguments: object) -> ToolOutcome:
    call = ToolExec(call_id="c", name="buy", arguments=arguments, agent=h.agent)
    return await h.ctx[Tools].execute(call)


@pytest.mark.parametrize(
    ("decision", "source", "reason"),
    [
        (Allow(), "default", "no policy objects"),
        (Allow(RULE), "rule", "matched rule 'r'"),
        (Deny("no"), "hook", "no"),
        (Deny("denied: no", grounds=RULE), "rule", "matched rule 'r'"),
        (Ask("why not"), "hook", "why not - there is no approval service"),
        (Ask(None, RULE), "rule", "matched rule 'r' - there is no approval service"),
    ],
)
async def test_a_decision_is_heard_with_its_grounds(
    decision: Decision, source: str, reason: str
) -> None:
    """T-011: What policies decided is told once, before the body, with source and reason."""
    async with deciding(decision) as (h, heard):
        outcome = await buy(h, item="bread")
    ((grounds, verdict),) = [(each.decision.grounds, each.decision) for each in heard]
    assert grounds is not None
    assert (grounds.source, grounds.reason) == (source, reason)
    assert outcome.is_error is isinstance(verdict, Deny)


@pytest.mark.parametrize(
    ("word", "source", "reason"),
    [
        ("allowed-once", "human", "matched rule 'r' - human approved"),
        ("rejected", "human", "matched rule 'r' - human denied"),
        ("timed-out", "timeout", "matched rule 'r' - nobody answered in time"),
        ("unavailable", "rule", "matched rule 'r' - nobody could be asked"),
    ],
)
async def test_an_answer_is_part_of_the_grounds(word: str, source: str, reason: str) -> None:
    """T-013: Who was asked, and what came of it, stands beside the rule."""
    answer = ApprovalOutcome(
        outcome=word,  # type: ignore[arg-type]  # a parameter
        id="p-1",
        by="ann",
    )
    async with deciding(Ask(None, RULE), answer) as (h, heard):
        await buy(h, item="bread")
    (grounds,) = [each.decision.grounds for each in heard]
    assert grounds == Grounds(source=source, reason=reason, rule="r", approval=answer)  # type: ignore[arg-type]  # a parameter


async def test_edited_arguments_are_heard() -> None:
    """T-013: The call that is told has the arguments it will run with."""
    answer = ApprovalOutcome(outcome="allowed-once", arguments={"item": "milk"})
    async with deciding(Ask(), answer) as (h, heard):
        assert (await buy(h, item="bread")).text == "bought milk"
    assert [each.exec.plain_arguments() for each in heard] == [{"item": "milk"}]


async def test_a_guard_has_the_last_word_before_it_is_heard() -> None:
    """T-011: A tool guard that denies an allowed call gives one decision."""
    async with deciding(Allow(RULE)) as (h, heard):
        h.ctx[Tools].guard(lambda call: "closed today")
        assert (await buy(h, item="bread")).text == "Error: closed today"
    assert [each.decision.grounds for each in heard] == [
        Grounds(source="guard", reason="closed today")
    ]


async def test_a_failing_policy_is_heard_as_a_denial() -> None:
    """T-016: An exception of a policy is a final error result, and told."""

    def fail() -> Decision:
        raise RuntimeError("broken")

    async with deciding(fail) as (h, heard):
        assert "broken" in (await buy(h, item="bread")).text
    (grounds,) = [each.decision.grounds for each in heard]
    assert grounds is not None
    assert (grounds.source, "broken" in grounds.reason) == ("hook", True)


async def test_a_listener_may_deny_what_was_allowed() -> None:
    """T-011: A record that cannot be made stops the call."""
    async with deciding() as (h, _):
        h.ctx.on(DECIDED, lambda decided, call_next: Deny("the books are closed"))
        outcome = await buy(h, item="bread")
    assert (outcome.text, outcome.code) == ("Error: the books are closed", DENIED)


async def test_no_listener_may_allow_what_was_denied() -> None:
    """T-011: Nothing takes a denial back."""
    async with deciding(Deny("no")) as (h, _):
        h.ctx.on(DECIDED, lambda decided, call_next: Allow())
        outcome = await buy(h, item="bread")
    assert outcome.is_error
    assert "not a Deny or what was decided" in outcome.text


@pytest.mark.parametrize(
    ("decision", "code"), [(Allow(), ABORTED_BEFORE_DISPATCH), (Deny("no"), DENIED)]
)
async def test_a_cancel_while_it_is_recorded_keeps_a_denial(decision: Decision, code: str) -> None:
    """T-022: Cancelled before the body: aborted if it was allowed, else that denial."""
    results: list[Executed] = []
    async with deciding(decision) as (h, _):

        async def record(decided: Decided, call_next: Next[Allow | Deny]) -> Allow | Deny:
            scope.cancel()
            await anyio.sleep_forever()
            raise AssertionError

        h.ctx.on(DECIDED, record)
        h.ctx.on(RESULT, results.append)
        with anyio.CancelScope() as scope:
            await buy(h, item="bread")
    assert [done.outcome.code for done in results] == [code]


async def test_a_call_can_be_checked_without_running_it() -> None:
    """T-008: An unknown tool and bad arguments are known before the body."""
    async with deciding() as (h, heard):
        tools = h.ctx[Tools]
        unknown = tools.check(ToolExec(call_id="c", name="by", agent=h.agent))
        wrong = tools.check(ToolExec(call_id="c", name="buy", arguments={"item": 5}))
        broken = tools.check(ToolExec(call_id="c", name="buy", arguments={"item": float("nan")}))
        right = tools.check(ToolExec(call_id="c", name="buy", arguments={"item": "bread"}))
    codes = [found.code if found else None for found in (unknown, wrong, broken, right)]
    assert codes == [UNKNOWN_TOOL, INVALID_ARGS, INVALID_ARGS, None]
    assert wrong is not None
    assert "/item" in wrong.text
    assert heard == []
