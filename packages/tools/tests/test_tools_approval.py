"""Calls that somebody has to approve."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from terret_context import Context, Plugin, plugin
from terret_testing import Harness, running_harness
from terret_tools import (
    ABORTED_BEFORE_DISPATCH,
    APPROVAL,
    DENIED,
    INVALID_ARGS,
    PRE_EXECUTE,
    RESULT,
    ApprovalOutcome,
    Ask,
    Executed,
    ToolExec,
    ToolOutcome,
    Tools,
    tool,
)


class Desk:
    """An approval service that answers from a function."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Ask]] = []
        self.waiting = anyio.Event()

    async def request(self, exec: ToolExec, ask: Ask) -> ApprovalOutcome:
        self.asked.append((exec.call_id, ask))
        self.waiting.set()
        answer: ApprovalOutcome = await self.answer()
        return answer

    def plugin(self) -> Plugin:
        @plugin(name="desk")
        def desk(ctx: Context) -> None:
            ctx.provide(APPROVAL, self)

        return desk


@asynccontextmanager
async def asking(desk: Desk | None, reason: str | None = "costly") -> AsyncIterator[Harness]:
    async with running_harness(plugins=[desk.plugin()] if desk else []) as h:

        @tool
        async def buy(item: str = "nothing") -> str:
            """Buy something."""
            return f"bought {item}"

        h.ctx[Tools].register(buy)
        h.ctx.on(PRE_EXECUTE, lambda call, call_next: Ask(reason))
        yield h


def answering(outcome: Any, **fields: Any) -> Callable[[], Any]:
    async def answer() -> ApprovalOutcome:
        return ApprovalOutcome(outcome=outcome, **fields)

    return answer


async def buy(h: Harness, *, by_agent: bool = True) -> ToolOutcome:
    call = ToolExec(
        call_id="c", name="buy", arguments={"item": "bread"}, agent=h.agent if by_agent else None
    )
    return await h.ctx[Tools].execute(call)


async def test_an_ask_without_a_service_is_a_denial() -> None:
    """T-012: Without service the reason says so."""
    async with asking(None) as h:
        outcome = await buy(h)
    assert outcome.text == "Error: denied: costly - there is no approval service"
    assert outcome.code == DENIED


async def test_an_ask_without_agent_is_a_denial() -> None:
    """T-012: Without agent nobody is asked."""
    desk = Desk(answering("allowed-once"))
    async with asking(desk, reason=None) as h:
        outcome = await buy(h, by_agent=False)
    assert outcome.text.startswith("Error: denied: approval is needed - the call has no agent")
    assert desk.asked == []


async def test_a_granted_call_runs() -> None:
    """T-013: Granted; the service gets the call and what the policy said."""
    desk = Desk(answering("allowed-once"))
    async with asking(desk) as h:
        assert (await buy(h)).text == "bought bread"
    assert desk.asked == [("c", Ask("costly"))]


async def test_a_granted_call_runs_with_edited_arguments() -> None:
    """T-013, T-021: Edited arguments are what all later stages and the body get."""
    results: list[Executed] = []
    async with asking(Desk(answering("allowed-once", arguments={"item": "milk"}))) as h:
        h.ctx.on(RESULT, results.append)
        assert (await buy(h)).text == "bought milk"
    assert results[0].exec.plain_arguments() == {"item": "milk"}


async def test_edited_arguments_are_checked_like_all_others() -> None:
    """T-013: A bad edit is the call's failure."""
    for edited in ({"item": 5}, {"item": float("inf")}):
        async with asking(Desk(answering("allowed-once", arguments=edited))) as h:
            assert (await buy(h)).code == INVALID_ARGS


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("rejected", "human denied"),
        ("cancelled", "the question was cancelled"),
        ("unavailable", "nobody could be asked"),
        ("timed-out", "nobody answered in time"),
    ],
)
async def test_any_other_outcome_is_a_denial_that_says_which(outcome: str, text: str) -> None:
    """T-013, T-012: Rejected, cancelled, unavailable, timed out."""
    async with asking(Desk(answering(outcome, note="ask Ann"))) as h:
        denied = await buy(h)
    assert denied.text == f"Error: denied: costly - {text}: ask Ann"
    assert denied.error is not None
    assert denied.error.info is not None
    assert (denied.code, denied.error.info.data) == (DENIED, {"outcome": outcome})


async def test_an_unknown_outcome_is_an_error_result() -> None:
    """T-013: An unknown outcome gives an error result."""
    async with asking(Desk(answering("perhaps"))) as h:
        assert "unknown outcome 'perhaps'" in (await buy(h)).text


@pytest.mark.parametrize("outcome", ["allowed-once", "cancelled"])
async def test_a_cancel_that_overtakes_the_answer_wins(outcome: str) -> None:
    """T-013, T-022: A cancel overtaking the approval gives ABORTED_BEFORE_DISPATCH."""
    scope = anyio.CancelScope()

    async def answer_late() -> ApprovalOutcome:
        scope.cancel()
        return ApprovalOutcome(outcome=outcome)  # type: ignore[arg-type]  # a parameter

    results: list[Executed] = []
    async with asking(Desk(answer_late)) as h:
        h.ctx.on(RESULT, results.append)
        with scope:
            await buy(h)
    assert scope.cancelled_caught
    assert [done.outcome.code for done in results] == [ABORTED_BEFORE_DISPATCH]


async def test_a_rejection_survives_a_cancel() -> None:
    """T-022: A denial that was produced stays, and is reviewed."""
    scope = anyio.CancelScope()

    async def reject() -> ApprovalOutcome:
        scope.cancel()
        return ApprovalOutcome(outcome="rejected")

    results: list[Executed] = []
    async with asking(Desk(reject)) as h:
        h.ctx.on(RESULT, results.append)
        with scope:
            await buy(h)
    assert [done.outcome.code for done in results] == [DENIED]


async def test_a_cancelled_wait_ends_the_question() -> None:
    """T-022: An approval ended by the cancel gives ABORTED_BEFORE_DISPATCH."""
    results: list[Executed] = []
    desk = Desk(anyio.sleep_forever)
    async with asking(desk) as h, anyio.create_task_group() as group:
        h.ctx.on(RESULT, results.append)
        group.start_soon(buy, h)
        await desk.waiting.wait()
        group.cancel_scope.cancel()
    assert [done.outcome.code for done in results] == [ABORTED_BEFORE_DISPATCH]
