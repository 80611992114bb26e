"""Everything that decides about a turn together: policies, people, questions, budget, events."""

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from loop_logs import lines
from terret_agents import USER, InquiryClosedError
from terret_llm import GenerateOptions
from terret_plugin_approval import ApprovalDecision, ApprovalItem, Approvals
from terret_plugin_budget import Budget
from terret_plugin_loop_events import LoopEvents, Projection, check, validate
from terret_plugin_permissions import Permissions
from terret_plugin_questions import QuestionAnswer, QuestionItem, Questions
from terret_plugin_step_limit import step_limit
from terret_plugin_tool_decisions import tool_decisions
from terret_sessions import EVENT, Session, SessionEvent, ToolResult, repair_closers
from terret_testing import (
    Harness,
    ManualClock,
    Part,
    Reply,
    ScriptedModel,
    raw_call,
    running_harness,
    say,
)
from terret_tools import Tools
from turn_plans import ARGUMENTS, RULES, Plan, add_tools, model_of, plans, turns


class Stage:
    """The harness of a plan."""

    def __init__(self, h: Harness, plan: Plan, clock: ManualClock) -> None:
        self.h, self.clock = h, clock
        self.people = deque(plan.people)
        self.cancel_at = plan.cancel_at
        self.asked: list[str] = []
        self.questions = 0
        self.most_open = 0

    async def approve(self, item: ApprovalItem) -> ApprovalDecision | None:
        self.asked.append(item.id)
        approvals, questions = self.h.ctx[Approvals], self.h.ctx[Questions]
        self.most_open = max(self.most_open, len(approvals.items()) + len(questions.items()))
        match self.people.popleft() if self.people else "yes":
            case "no":
                return ApprovalDecision(allow=False, by="ann")
            case "edit":
                return ApprovalDecision(allow=True, args={"text": "edited"})
            case "none":
                return None
            case "raise":
                raise RuntimeError("nobody home")
            case "slow":
                self.clock.advance(300)
                await anyio.sleep_forever()
            case "twice":
                self.h.ctx.spawn(partial(self.decide_late, item.id))
        return ApprovalDecision(allow=True, by="ann")

    async def decide_late(self, id: str) -> None:
        try:
            await self.h.ctx[Approvals].decide(id, ApprovalDecision(allow=False))
        except InquiryClosedError:
            return

    async def reply(self, item: QuestionItem) -> QuestionAnswer | None:
        self.questions += 1
        return QuestionAnswer("red") if self.questions % 2 else None

    def disturb(self, session: Session, event: SessionEvent) -> None:
        if session is self.h.session and event.seq == self.cancel_at:
            self.h.ctx.spawn(self._cancel)

    async def _cancel(self) -> None:
        self.h.agent.cancel(USER)


async def run(plan: Plan) -> tuple[list[SessionEvent], list[Any], Stage]:
    """Runs a turn as planned and one after it; returns the log and what a reader saw."""
    clock = ManualClock()
    mounts: list[Any] = [clock.plugin(), LoopEvents, tool_decisions, Approvals, Questions]
    mounts += [(Permissions, {"rules": RULES, "audit": "off"})]
    mounts += [(Budget, {"contextBudgetTokens": 400})]
    async with running_harness(plugins=mounts, model=model_of(plan)) as h:
        stage = Stage(h, plan, clock)
        add_tools(h.ctx[Tools])
        h.ctx[Approvals].approver(stage.approve)
        h.ctx[Questions].channel(stage.reply)
        h.ctx.on(EVENT, stage.disturb)
        stream = h.ctx[LoopEvents].open(h.session, session_id="s", agent="test")
        with anyio.move_on_after(0):
            await anext(stream)
        for text in ("go", "again"):
            h.agent.send(text)
            await h.agent.when_idle()
        await anyio.wait_all_tasks_blocked()
        log = list(h.events)
        for id in stage.asked:
            await stage.decide_late(id)
        assert list(h.events) == log  # late decisions have no effect
        stream.close()
        return log, [each.event async for each in stream], stage


def folded(log: list[SessionEvent]) -> list[Any]:
    fold = Projection("s", "test")
    return [given for event in log for given in fold.feed(event)]


@settings(max_examples=60, deadline=None)
@given(plan=plans, backend=st.sampled_from(["asyncio", "trio"]))
def test_turns_keep_the_grammar_whatever_people_and_tools_do(plan: Plan, backend: str) -> None:
    """E-550, E-004, E-010, E-040 to E-054, E-063 to E-069, E-074, E-082."""
    log, seen, _ = anyio.run(run, plan, backend=backend)
    events = folded(log)
    assert seen == events
    for event in events:
        validate(event)
    for turn in turns(events):
        check(turn, agent="test")


@settings(max_examples=30, deadline=None)
@given(plan=plans)
def test_every_item_ends_exactly_once_and_one_is_open_at_a_time(plan: Plan) -> None:
    """E-045, E-046, E-097, E-330, E-337, E-338."""
    log, _, stage = anyio.run(run, plan)
    open_now: set[object] = set()
    for event in log:
        if event.type in ("approval/asked", "question/asked"):
            open_now.add(event.data["id"])
            assert len(open_now) == 1
        elif event.type in ("approval/decided", "question/answered"):
            open_now.remove(event.data["id"])
    assert open_now == set()
    asked = Counter(event.data["id"] for event in log if event.type.endswith("/asked"))
    assert set(asked.values()) <= {1}
    assert stage.most_open <= 1


@settings(max_examples=30, deadline=None)
@given(plan=plans)
def test_every_call_that_reached_policy_has_one_decision(plan: Plan) -> None:
    """E-040, E-064, E-089: And no call has one that was skipped or never begun."""
    log, _, _ = anyio.run(run, plan)
    calls = [str(event.data["callId"]) for event in log if event.type == "tool/call"]
    decided = Counter(event.data["callId"] for event in log if event.type == "tool/decision")
    assert set(decided) <= set(calls)
    assert set(decided.values()) <= {1}
    results = [event.view for event in log if isinstance(event.view, ToolResult)]
    codes = {one.block.tool_call_id: one.error and one.error.code for one in results}
    undecided = {codes[call] for call in calls if call not in decided}
    assert undecided <= {"SKIPPED_SIBLING_DENIED", "ABORTED_BEFORE_DISPATCH"}


@settings(max_examples=15, deadline=None)
@given(plan=plans)
def test_a_crash_anywhere_adds_an_error_and_nothing_else(plan: Plan) -> None:
    """E-081: The reloaded projection is the old prefix plus `error`."""
    log, _, _ = anyio.run(run, plan)
    for length in range(1, len(log)):
        before, closers = folded(log[:length]), repair_closers(log[:length])
        added = [{"type": "error", "error": "interrupted"}] if closers else []
        assert folded([*log[:length], *closers]) == [*before, *added]


async def limited(calls: int) -> list[Any]:
    """A turn of a model that calls a tool that often, with a limit of three model calls."""
    left = deque(["good"] * calls)

    def answer(request: GenerateOptions) -> Part | Reply:
        return raw_call(left.popleft(), ARGUMENTS["good"]) if left else say("Done.")

    mounts: list[Any] = [tool_decisions, Budget, (step_limit, {"maxSteps": 3})]
    async with running_harness(plugins=mounts, model=ScriptedModel(*[answer] * 9)) as h:
        add_tools(h.ctx[Tools])
        h.agent.send("go")
        await h.agent.when_idle()
        events = folded(list(h.events))
        checks = [event for event in events if event["type"] == "budget:check"]
        assert len(checks) == len(h.requests)
        check(events, agent="test")
        return events


async def test_a_limit_ends_the_turn_in_place_of_the_next_call() -> None:
    """E-020, E-025, E-026: A turn that is done exactly at the limit is done."""
    stopped, done = await limited(9), await limited(2)
    assert lines(stopped)[-2:] == [
        "loop:max_turns 3",
        "done Stopped after 3 model calls, the limit of a turn. max_turns",
    ]
    assert lines(done)[-2:] == ["loop:done Done.", "done Done."]


def narrowed(events: list[Any], wanted: Callable[[str], bool]) -> list[str]:
    return [each for each in lines(events) if wanted(each)]


def test_a_person_below_and_a_person_here() -> None:
    """E-063, E-064, E-067: In full, so that the properties have something to stand on."""
    plan = Plan([["helper", "ask", "good"]], ["yes", "no"])
    log, _, stage = anyio.run(run, plan)
    first, second = turns(folded(log))
    helper, ask = stage.asked
    assert narrowed(first, lambda line: not line.startswith("budget")) == [
        "session s",
        "assistant:text Now.",
        "actauth:decision helper allow",
        "tool:started call-1 helper {}",
        f"approval:pending {helper} ask {{}}",
        "actauth:decision ask allow",
        'toollane:result helper "helped"',
        "tool:result call-1 helper {} Approved.",
        f"approval:pending {ask} ask {{}}",
        "actauth:decision ask deny",
        "tool:result call-2 ask {} Denied.",
        'loop:skipped good ["ask"]',
        'tool:result call-3 good {"text":"x"} Skipped.',
        'loop:denied ["ask"]',
        "done Stopped: a person denied ask. denied",
    ]
    assert lines(second)[-1] == "done Done."
