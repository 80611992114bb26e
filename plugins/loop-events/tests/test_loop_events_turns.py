"""Real turns of a real harness: whatever happens in them, the events keep their promises."""

import pickle
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loop_logs import Log, lines, project
from terret_agents import USER
from terret_plugin_loop_events import LoopEvents, Projection, check, validate
from terret_sessions import EVENT, Session, SessionEvent, repair_closers
from terret_testing import Answer, Harness, fail, raw_call, reply, running_harness, say, script
from terret_tools import PRE_EXECUTE, Allow, Decision, Deny, Tools, tool

CALLS = {
    "good": '{"text": "x"}',
    "broken": "{}",
    "denied": "{}",
    "slow": "{}",
    "missing": "{}",
    "good#": '{"text": 5}',
    "slow#": "no json",
}


@dataclass
class Plan:
    """What happens in a turn: the calls of each answer, texts, and where it is disturbed."""

    steps: list[tuple[list[str], str]]
    ends: str = "answer"
    cancel_at: int | None = None
    steer_at: int | None = None
    seen: int = field(default=0, compare=False)


plans = st.builds(
    Plan,
    steps=st.lists(
        st.tuples(st.lists(st.sampled_from(sorted(CALLS)), max_size=4), st.sampled_from(["", "x"])),
        max_size=3,
    ),
    ends=st.sampled_from(["answer", "failure", "nothing"]),
    cancel_at=st.none() | st.integers(3, 60),
    steer_at=st.none() | st.integers(3, 60),
)


def answers(plan: Plan) -> list[Answer]:
    made: list[Answer] = []
    for number, (calls, text) in enumerate(plan.steps):
        parts = [say(text)] if text else []
        named = [(name.rstrip("#"), CALLS[name]) for name in calls]
        made.append(
            reply(*parts, *(raw_call(n, a, id=f"{number}-{i}") for i, (n, a) in enumerate(named)))
        )
    last: dict[str, Answer] = {
        "answer": say("Done."),
        "failure": fail("RATE_LIMITED"),
        "nothing": reply(),
    }
    return [*made, last[plan.ends], *[say("More.")] * (len(made) + 2)]


def add_tools(h: Harness) -> None:
    @tool(is_concurrency_safe=lambda args: True)
    async def good(text: str) -> dict[str, str]:
        """Give it back."""
        return {"text": text}

    @tool
    async def broken() -> str:
        """Fail."""
        raise RuntimeError("broken")

    @tool
    async def denied() -> str:
        """Never run."""
        raise AssertionError

    @tool(is_concurrency_safe=lambda args: True)
    async def slow() -> str:
        """Take a moment."""
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return "slow"

    for each in (good, broken, denied, slow):
        h.ctx[Tools].register(each)


async def run(plan: Plan) -> tuple[list[SessionEvent], list[object]]:
    """Runs two turns, the first of them as planned; returns the log and what a reader saw."""
    async with running_harness(plugins=[LoopEvents], model=script(*answers(plan))) as h:
        add_tools(h)
        stream = h.ctx[LoopEvents].open(h.session, session_id="s", agent="shop")
        with anyio.move_on_after(0):
            await anext(stream)

        async def judge(call: object, call_next: object) -> Decision:
            return Deny("no") if getattr(call, "name", "") == "denied" else Allow()

        def disturb(session: Session, event: SessionEvent) -> None:
            if event.seq == plan.cancel_at:
                h.ctx.spawn(partial(_later, h.agent.cancel, USER))
            if event.seq == plan.steer_at:
                h.ctx.spawn(partial(_later, h.agent.steer, "and?"))

        h.ctx.on(PRE_EXECUTE, judge)
        h.ctx.on(EVENT, disturb)
        for text in ("go", "again"):
            h.agent.send(text)
            await h.agent.when_idle()
        await anyio.wait_all_tasks_blocked()
        stream.close()
        return list(h.events), [each.event async for each in stream]


async def _later(action: object, *arguments: object) -> None:
    assert callable(action)
    action(*arguments)


@settings(max_examples=25, deadline=None)
@given(plan=plans, backend=st.sampled_from(["asyncio", "trio"]))
def test_a_turn_keeps_grammar_and_schema_whatever_happens(plan: Plan, backend: str) -> None:
    """E-004, E-010, E-054, E-074, E-080, E-082: Live and stored, on both backends."""
    log, seen = anyio.run(run, plan, backend=backend)
    fold = Projection("s", "shop")
    events = [given for event in log for given in fold.feed(event)]
    assert seen == events
    turn: list[object] = []
    for event in events:
        validate(event)
        turn.append(event)
        if event["type"] in ("done", "error"):
            check(turn, agent="shop")  # type: ignore[arg-type]  # they are events
            turn = []
    assert turn == []


@settings(max_examples=15, deadline=None)
@given(plan=plans)
def test_a_crash_anywhere_leaves_what_was_sent_and_an_error(plan: Plan) -> None:
    """E-081: The reloaded projection is the old prefix plus `error`."""
    log, _ = anyio.run(run, plan)
    whole = project(Session("s", seed=log))
    for length in range(1, len(log)):
        before = project(Session("s", seed=log[:length]))
        assert before == whole[: len(before)]
        closers = repair_closers(log[:length])
        repaired = project(Session("s", seed=[*log[:length], *closers]))
        added = [{"type": "error", "error": "interrupted"}] if closers else []
        assert repaired == [*before, *added]


@settings(max_examples=15, deadline=None)
@given(plan=plans, data=st.data())
def test_ignorable_events_of_strangers_change_nothing(plan: Plan, data: st.DataObject) -> None:
    """E-084: Wherever they stand."""
    log, _ = anyio.run(run, plan)
    places = data.draw(st.sets(st.integers(0, len(log)), max_size=5))
    expected = project(Session("s", seed=log))
    fold = Projection("s", "shop")
    found = []
    for number, event in enumerate(log):
        if number in places:
            stranger = SessionEvent("weather/changed", event.seq, event.time, {}, ignorable=True)
            assert fold.feed(stranger) == []
        found += fold.feed(event)
    assert found == expected


def test_the_fold_keeps_nothing_of_finished_turns() -> None:
    """E-085: Its state after a hundred turns is as large as after ten."""
    log, fold, sizes = Log(), Projection("s", "shop"), []
    for _ in range(100):
        log.start().step("hi").say("x", "a:t").decide("a", "t").result("a").stop()
        log.step().say("ok").end()
    for event in log.session.events:
        fold.feed(event)
        if event.type == "turn/end":
            sizes.append(len(pickle.dumps(fold)))
    assert sizes[99] - sizes[9] < 5


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_reads_as_expected(backend: str) -> None:
    """E-054: One turn in full, so that a failing property has something to compare with."""
    log, _ = anyio.run(run, Plan([(["good", "denied", "slow"], "Both.")]), backend=backend)
    turn = lines(project(Session("s", seed=log)))
    assert turn[: turn.index("done Done.") + 1] == [
        "session s",
        "budget:check ok 0 0",
        "assistant:text Both.",
        "actauth:decision good allow",
        'tool:started 0-0 good {"text":"x"}',
        'toollane:result good {"text":"x"}',
        'tool:result 0-0 good {"text":"x"} Approved.',
        "actauth:decision denied deny",
        "tool:result 0-1 denied {} Denied.",
        "actauth:decision slow allow",
        "tool:started 0-2 slow {}",
        'toollane:result slow "slow"',
        "tool:result 0-2 slow {} Approved.",
        "budget:check ok 15 0",
        "loop:done Done.",
        "done Done.",
    ]
