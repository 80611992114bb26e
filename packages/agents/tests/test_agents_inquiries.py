"""Items that people have to answer: their queue, their end and what the log keeps of them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from terret_agents import (
    Agent,
    Agents,
    Inquiries,
    InquiryClosedError,
    InquiryEnd,
    InquiryLog,
    UnknownInquiryError,
)
from terret_context import Context, plugin
from terret_llm import HarnessError
from terret_sessions import (
    FLUSH,
    Interrupted,
    Session,
    Sessions,
    TurnEnd,
    TurnStart,
    declare_event_type,
)
from terret_testing import Harness, ManualClock, running_harness

VOTES = InquiryLog("vote", "vote/asked", "vote/ended")
for name in (VOTES.asked, VOTES.ended):
    declare_event_type(name)


@dataclass(frozen=True)
class Vote:
    id: str
    agent: Agent


class Votes(Inquiries[Vote, str]):
    """People say yes or no; the log keeps what they said."""

    def log_asked(self, item: Vote) -> None:
        self.log.log_asked(self.ctx[Agents], item.agent, {"id": item.id, "callId": "c"})

    def log_ended(self, item: Vote, end: InquiryEnd, reply: str | None) -> None:
        self.log.log_ended(
            self.ctx[Agents], item.agent, {"id": item.id, "outcome": reply if reply else end}
        )

    async def vet(self, item: Vote, reply: str) -> None:
        if reply not in ("yes", "no"):
            raise ValueError(f"{reply} is no vote")

    async def ballot(self, agent: Agent) -> tuple[InquiryEnd, str | None]:
        root = self.ctx[Agents].root_of(agent)
        return await self.ask(agent, lambda: Vote(self.log.new_id(root), agent))


class Booth:
    """A harness with votes, and where they stand."""

    def __init__(self, h: Harness, votes: Votes, clock: ManualClock) -> None:
        self.h, self.votes, self.clock = h, votes, clock

    def log(self, session: Session | None = None) -> list[str]:
        return [
            f"{event.type[5:]} {event.data.get('outcome', '')}".strip()
            for event in (session or self.h.session).events
            if event.type.startswith("vote/")
        ]


@asynccontextmanager
async def booth() -> AsyncIterator[Booth]:
    made: list[Votes] = []
    clock = ManualClock()

    @plugin(inject=(Agents, Sessions))
    def votes(ctx: Context) -> None:
        made.append(Votes(ctx, VOTES, 60))

    async with running_harness(plugins=[clock.plugin(), votes]) as h:
        yield Booth(h, made[0], clock)


def says(reply: str | None) -> Callable[[Vote], Awaitable[str | None]]:
    async def answer(item: Vote) -> str | None:
        return reply

    return answer


async def hears(item: Vote) -> str | None:
    await anyio.sleep_forever()
    raise AssertionError


async def refuses(item: Vote) -> str | None:
    raise RuntimeError("closed")


async def test_nobody_to_ask_is_an_end_of_its_own() -> None:
    """E-334: No answerer, or none with an answer: unavailable."""
    async with booth() as b:
        assert await b.votes.ballot(b.h.agent) == ("unavailable", None)
        b.votes.answerer(b.h.ctx, says(None))
        assert await b.votes.ballot(b.h.agent) == ("unavailable", None)
        assert b.log() == ["asked", "ended unavailable"] * 2


async def test_the_first_answer_wins_and_the_others_are_cancelled() -> None:
    """E-332: Several answerers are asked together."""
    async with booth() as b:
        for answer in (hears, says("yes"), hears):
            b.votes.answerer(b.h.ctx, answer)
        assert await b.votes.ballot(b.h.agent) == ("answered", "yes")


@pytest.mark.parametrize("others", [(), (says("no"),)])
async def test_a_failing_or_senseless_answerer_gives_no_answer(
    others: tuple[Callable[[Vote], Awaitable[str]], ...],
) -> None:
    """E-333: It counts as no decision; all failed: unavailable."""
    async with booth() as b:
        for answer in (refuses, says("perhaps"), *others):
            b.votes.answerer(b.h.ctx, answer)
        expected = ("answered", "no") if others else ("unavailable", None)
        assert await b.votes.ballot(b.h.agent) == expected


async def test_an_item_times_out_from_the_moment_it_is_asked() -> None:
    """E-335, E-340: An item in the queue does not age."""
    async with booth() as b, anyio.create_task_group() as group:
        b.votes.answerer(b.h.ctx, hears)
        ends: list[InquiryEnd] = []

        async def ballot() -> None:
            ends.append((await b.votes.ballot(b.h.agent))[0])

        group.start_soon(ballot)
        await b.clock.sleeping()
        group.start_soon(ballot)
        await anyio.wait_all_tasks_blocked()
        b.clock.advance(60)
        await anyio.wait_all_tasks_blocked()
        assert ends == ["timed-out"]
        b.clock.advance(59)
        await anyio.wait_all_tasks_blocked()
        assert ends == ["timed-out"]
        b.clock.advance(1)
    assert ends == ["timed-out"] * 2


async def test_items_are_asked_one_at_a_time_in_the_order_they_came() -> None:
    """E-045, E-340: One open item for each root agent, first come, first asked."""
    async with booth() as b, anyio.create_task_group() as group:
        b.votes.answerer(b.h.ctx, hears)
        created = await b.h.agent.ctx[Agents].create(session_id="child")
        for agent in (b.h.agent, created.agent, b.h.agent):
            group.start_soon(b.votes.ballot, agent)
            await anyio.wait_all_tasks_blocked()
        asked = []
        for _ in range(3):
            await anyio.wait_all_tasks_blocked()
            (item,) = b.votes.items()
            asked.append(item.agent.id)
            await b.votes.answer(item.id, "yes")
        assert asked == ["test", "child", "test"]
        assert b.votes.items() == ()


async def test_an_item_below_another_agent_stands_in_both_logs() -> None:
    """E-098: In the root's log with its origin, in its own without."""
    async with booth() as b:
        created = await b.h.agent.ctx[Agents].create(session_id="child")
        await b.votes.ballot(created.agent)
        child = created.agent.session
        assert b.log() == b.log(child) == ["asked", "ended unavailable"]
        own, below = (
            next(event.data for event in session.events if event.type == "vote/asked")
            for session in (child, b.h.session)
        )
        assert "origin" not in own
        assert below["origin"] == {"sessionId": "child", "agent": "child", "callId": "c"}
        assert own["id"] == below["id"]


async def test_an_answer_from_outside_is_durable_before_it_returns() -> None:
    """E-337, E-339, E-344: So was the question; a second answer hears how it ended."""
    async with booth() as b, anyio.create_task_group() as group:
        flushed: list[list[str]] = []
        b.h.ctx.on(FLUSH, lambda session: flushed.append(b.log()))
        b.votes.answerer(b.h.ctx, hears)
        group.start_soon(b.votes.ballot, b.h.agent)
        await anyio.wait_all_tasks_blocked()
        (item,) = b.votes.items()
        with pytest.raises(ValueError, match="perhaps is no vote"):
            await b.votes.answer(item.id, "perhaps")
        assert b.votes.find(item.id) is item
        await b.votes.answer(item.id, "no")
        assert flushed == [["asked"], ["asked", "ended no"]]
        with pytest.raises(InquiryClosedError) as late:
            await b.votes.answer(item.id, "yes")
        assert (late.value.outcome, late.value.code) == ("no", "ALREADY_DECIDED")
        assert late.value.session_id == b.h.session.id
        with pytest.raises(UnknownInquiryError):
            await b.votes.answer("elsewhere-1", "yes")


async def test_of_two_answers_at_once_exactly_one_counts() -> None:
    """E-338: The other one hears how the item ended."""
    async with booth() as b, anyio.create_task_group() as group:
        b.votes.answerer(b.h.ctx, hears)
        group.start_soon(b.votes.ballot, b.h.agent)
        await anyio.wait_all_tasks_blocked()
        (item,) = b.votes.items()
        heard: list[str] = []

        async def answer(reply: str) -> None:
            try:
                await b.votes.answer(item.id, reply)
                heard.append("took effect")
            except InquiryClosedError as error:
                heard.append(error.outcome)

        group.start_soon(answer, "yes")
        group.start_soon(answer, "no")
        await anyio.wait_all_tasks_blocked()
        (outcome,) = {each for each in heard if each != "took effect"}
        assert sorted(heard) == sorted(["took effect", outcome])
        assert b.log() == ["asked", f"ended {outcome}"]


async def test_a_cancellation_wins_over_an_answer_that_comes_with_it() -> None:
    """E-336: The item is cancelled, and so it is for whoever answered."""
    async with booth() as b, anyio.create_task_group() as group:
        b.votes.answerer(b.h.ctx, hears)
        scope = anyio.CancelScope()

        async def ballot() -> None:
            with scope:
                await b.votes.ballot(b.h.agent)

        group.start_soon(ballot)
        await anyio.wait_all_tasks_blocked()
        (item,) = b.votes.items()
        scope.cancel()
        with pytest.raises(InquiryClosedError) as overtaken:
            await b.votes.answer(item.id, "yes")
        assert overtaken.value.outcome == "cancelled"
        assert b.log() == ["asked", "ended cancelled"]


async def test_whoever_answers_hears_that_it_could_not_be_kept() -> None:
    """E-339: A failed flush is the failure of the item and of its answer."""
    async with booth() as b:

        def fail(session: Session) -> None:
            raise HarnessError("the disk is full", "IO")

        b.h.ctx.on(FLUSH, fail)
        b.votes.answerer(b.h.ctx, hears)
        failures: list[HarnessError] = []

        async def ballot() -> None:
            try:
                await b.votes.ballot(b.h.agent)
            except HarnessError as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(ballot)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(HarnessError, match="disk is full"):
                await b.votes.answer(b.votes.items()[0].id, "yes")
        assert [error.code for error in failures] == ["IO"]


async def test_what_a_crash_left_open_is_cancelled_when_the_session_is_used_again() -> None:
    """E-097, E-344, E-572: Exactly one end for each item; a late answer hears it."""
    async with booth() as b:
        seed = Session("old")
        seed.append("turn/start", TurnStart(1))
        id = b.votes.log.new_id(b.h.agent)
        seed.append("vote/asked", {"id": id, "turn": 1, "step": 1})
        seed.append("vote/asked", {"by": "somebody who names no item"})
        seed.append("turn/end", TurnEnd(1, Interrupted()))
        sessions = b.h.ctx[Sessions]
        again = sessions.create("again", seed=seed.events)
        assert b.log(again) == ["asked", "asked", "ended cancelled"]
        assert b.log(sessions.create("third", seed=again.events)) == b.log(again)


async def test_the_items_of_a_plugin_end_with_it() -> None:
    """E-334: Whoever waits for a kind that is unloaded is not left waiting."""
    async with booth() as b, anyio.create_task_group() as group:
        b.votes.answerer(b.h.ctx, hears)
        ends: list[tuple[InquiryEnd, str | None]] = []

        async def ballot() -> None:
            ends.append(await b.votes.ballot(b.h.agent))

        group.start_soon(ballot)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ballot)
        await anyio.wait_all_tasks_blocked()
        await b.votes.ctx.fiber.dispose()
        await anyio.wait_all_tasks_blocked()
        assert b.log() == ["asked", "ended unavailable"]
    assert ends == [("unavailable", None)] * 2
