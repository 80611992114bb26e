"""Clients that lose their connection and come back miss nothing and see nothing twice."""

import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from served_projects import Served, served_project, write_project
from terret_agents import CLOCK
from terret_client import (
    Answer,
    ApiError,
    ApprovalPending,
    Event,
    QuestionPending,
    Reply,
    TerretClient,
)
from terret_plugin_loop_events import LoopEvents, check, validate
from terret_sessions import EVENT, Session, SessionEvent, Sessions
from terret_testing import ManualClock
from terret_tools import Tools
from turn_plans import RULES, Plan, add_tools, model_of, plans, turns

MORE = f"""
  session-jsonl: null
  permissions: {{audit: "off", rules: {yaml.safe_dump(RULES, default_flow_style=True).strip()}}}
  budget: {{contextBudgetTokens: 400}}
"""
Events = list[tuple[str | None, Any]]


def told(events: list[Event]) -> Events:
    return [(event.cursor, event.data) for event in events]


async def taken(stream: AsyncGenerator[Event]) -> list[Event]:
    async with aclosing(stream) as events:
        return [event async for event in events]


@dataclass
class Seen:
    """What clients of a plan's two turns were given."""

    streamed: Events
    """The first turn, by the stream of its message, which was cut."""
    plain: list[Any]
    """The second one, in the last answer."""
    parts: list[list[Any]]
    """The second one, in the answers before that."""
    stored: Events = field(default_factory=list)
    """Both, folded from the log."""
    suffixes: dict[str, Events] = field(default_factory=dict)
    """What follows a cursor, to the end of its turn."""
    log: Events = field(default_factory=list)
    """The log of both, by the protocol of that name."""


class People:
    """Decide what comes up over HTTP, as a plan says."""

    def __init__(self, client: TerretClient, plan: Plan, clock: ManualClock) -> None:
        self.client, self.clock = client, clock
        self.answers = deque(plan.people)
        self.asked: list[str] = []
        self.questions = 0

    async def decide(self, kind: str, id: str) -> None:
        """Decides, or lets the time for it pass."""
        if kind == "question":
            self.questions += 1
            if self.questions % 2:
                await self.client.answer_question(id, "red", wait=False)
            else:
                await self.wait()
            return
        self.asked.append(id)
        match self.answers.popleft() if self.answers else "yes":
            case "no":
                await self.client.deny_call(id, wait=False)
            case "edit":
                await self.client.approve_call(id, args={"text": "edited"}, wait=False)
            case "none" | "slow":
                await self.wait()
            case "raise":
                assert await self.refused(id, {"text": 5}) == "invalid_args"
                await self.client.approve_call(id, wait=False)
            case "twice":
                await self.client.approve_call(id, note="sure", wait=False)
                assert await self.refused(id) == "already_decided"
            case _:
                await self.client.approve_call(id, wait=False)

    async def refused(self, id: str, args: dict[str, object] | None = None) -> str:
        try:
            await self.client.approve_call(id, args=args, wait=False)
        except ApiError as error:
            return error.code
        return "accepted"

    async def wait(self) -> None:
        await anyio.wait_all_tasks_blocked()
        self.clock.advance(300)


async def run(plan: Plan, cuts: list[int]) -> Seen:
    """Runs a turn that is streamed and one that is answered, and asks for every suffix."""
    with tempfile.TemporaryDirectory() as folder:
        root = write_project(Path(folder), more=MORE)
        async with served_project(root, model_of(plan)) as served, served.client() as client:
            clock = ManualClock()
            served.ctx.provide(CLOCK, clock)
            add_tools(served.ctx[Tools])
            cancel_at(served, client, plan.cancel_at)
            people = People(client, plan, clock)
            streamed = await stream(served, people, cuts)
            plain, parts = await answers(client, people)
            seen = Seen(streamed, plain, parts)
            await look_back(served, client, seen, people)
            return seen


def cancel_at(served: Served, client: TerretClient, seq: int | None) -> None:
    async def cancel() -> None:
        await client.cancel("shop", "s")

    def disturb(session: Session, event: SessionEvent) -> None:
        if session.id.endswith(":s") and event.seq == seq:
            served.ctx.spawn(cancel)

    served.ctx.on(EVENT, disturb)


async def stream(served: Served, people: People, cuts: list[int]) -> Events:
    """Sends a message, and decides what comes up in its stream, which is cut again and again."""
    given = []
    async with (
        served.client(cuts) as client,
        aclosing(client.stream_message("shop", "go", session_id="s")) as events,
    ):
        async for event in events:
            given.append(event)
            kind, _, pending = event.type.partition(":")
            if pending == "pending":
                await people.decide(kind, event.data["id"])
    return told(given)


async def answers(client: TerretClient, people: People) -> tuple[list[Any], list[list[Any]]]:
    """Sends a message, and decides what its answers ask; returns all their events, last first."""
    parts = []
    send = partial(client.send_message, "shop", "again", session_id="s", message_id="m")
    try:
        reply: Reply = await send()
        while not isinstance(reply, Answer):
            parts.append([event.data for event in reply.events])
            kind = "approval" if isinstance(reply, ApprovalPending) else "question"
            await people.decide(kind, reply.id)
            await something_new(client, reply)
            reply = await send()
        return [event.data for event in reply.events], parts
    except ApiError as error:
        return error.body["events"], parts


async def something_new(client: TerretClient, reply: ApprovalPending | QuestionPending) -> None:
    async with aclosing(client.stream_events("shop", "s", after=reply.cursor)) as events:
        await anext(events)


async def look_back(served: Served, client: TerretClient, seen: Seen, people: People) -> None:
    """Reads the stored log, and everything that follows each of its cursors in the same turn."""
    [session] = [each for each in served.ctx[Sessions].list() if each.id.endswith(":s")]
    for id in people.asked:
        assert await people.refused(id) == "already_decided"
    outputs = served.ctx[LoopEvents].project(session.events, session_id="s", agent="shop")
    seen.stored = [(str(each.cursor), each.event) for each in outputs]
    for cursor in ["0", *(str(cursor) for cursor, _ in seen.stored)]:
        events = await taken(client.stream_events("shop", "s", after=cursor))
        seen.suffixes[cursor] = told(events)
    for after in ("0", None):
        place = seen.log[-1][0] if after is None else after
        stream = client.stream_events("shop", "s", after=place, protocol="log")
        seen.log += told(await taken(stream))


def rest_of_turn(stored: Events, cursor: str) -> Events:
    """What follows a cursor, to the next end of a turn."""
    after = [str(each) for each, _ in stored].index(cursor) + 1 if cursor != "0" else 0
    follows = stored[after:]
    ends = (n for n, (_, data) in enumerate(follows, 1) if data["type"] in ("done", "error"))
    return follows[: next(ends, 0)]


cut_lists = st.lists(st.integers(10, 3000), max_size=8)  # behind the wait that is asked for


@settings(max_examples=25, deadline=None)
@given(plan=plans, cuts=cut_lists, backend=st.sampled_from(["asyncio", "trio"]))
def test_whoever_comes_back_gets_the_rest(plan: Plan, cuts: list[int], backend: str) -> None:
    """E-083, E-116, E-117, E-121, E-131, E-132, E-530, E-533, E-550, E-552."""
    seen = anyio.run(run, plan, cuts, backend=backend)
    first, second = turns([data for _, data in seen.stored])
    assert seen.streamed == seen.stored[: len(first)]
    assert seen.plain == second
    assert all(part == second[: len(part)] for part in seen.parts)
    for turn in (first, second):
        check(turn, agent="shop")
    for data in (*first, *second):
        validate(data)
    for cursor, suffix in seen.suffixes.items():
        assert suffix == rest_of_turn(seen.stored, cursor)
    assert is_whole(seen.log)
    assert not any(is_whole(changed) for changed in mutations(seen.log))


def is_whole(log: Events) -> bool:
    """What a reader of the log can tell from its ids, and from how it ends."""
    ids = [cursor for cursor, _ in log]
    return ids == [str(n) for n in range(len(ids))] and log[-1][1]["type"] == "turn/end"


def mutations(log: Events) -> Iterator[Events]:
    """Every single drop, duplicate and swap."""
    for n in range(len(log)):
        yield log[:n] + log[n + 1 :]
        yield log[:n] + log[n : n + 1] + log[n:]
        if n:
            yield [*log[: n - 1], log[n], log[n - 1], *log[n + 1 :]]
