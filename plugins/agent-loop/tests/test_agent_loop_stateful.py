"""Whatever happens to an agent, in whatever order: its log is sound and nothing is lost.

Hypothesis draws what a model answers and what is done to the agent meanwhile; afterwards the log
is checked, and that the agent still answers.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import TypeAlias

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terret_agents import (
    ERROR,
    PRE_STEP,
    PROMPT_SUBMIT,
    QUEUED,
    STATUS,
    STEP_RESULT,
    TURN_STOP,
    TURN_STOPPING,
    USER,
    Agent,
    AgentDisposedError,
    AgentFailure,
    AgentHandle,
    Agents,
    Block,
    TurnStopping,
)
from terret_context import Container, Context, Fiber, Plugin, plugin
from terret_llm import Finish, GenerateOptions, Message, ToolResultBlock, create_user_message
from terret_sessions import (
    EVENT,
    Completed,
    InboxSpliced,
    LogInvariantError,
    MaxTokens,
    PromptBlocked,
    Session,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from terret_testing import (
    SCRIPTED,
    MemorySessions,
    Reply,
    call,
    fail,
    reply,
    running_harness,
    say,
    script,
    think,
)
from terret_tools import PRE_EXECUTE, ToolRun, Tools, tool

Step: TypeAlias = tuple[str, int]


async def pause(checkpoints: int) -> None:
    for _ in range(checkpoints):
        await anyio.lowlevel.checkpoint()


@tool(is_concurrency_safe=lambda arguments: True)
async def quick(run: ToolRun) -> str:
    """Leave a note and return."""
    run.defer_context(create_user_message("a note"))
    return "done"


@tool(is_concurrency_safe=lambda arguments: True)
async def slow() -> str:
    """Take some time, and some more to clean up."""
    try:
        await pause(20)
        return "done at last"
    finally:
        with anyio.CancelScope(shield=True):
            await pause(3)


@tool
async def broken() -> str:
    """Fail."""
    raise LookupError("broken")


@tool
async def last(run: ToolRun) -> str:
    """Conclude the turn."""
    run.conclude_turn()
    return "that was it"


def listening(name: str, *events: object, answer: Callable[..., object]) -> Plugin:
    """A plugin that answers to these events."""

    @plugin(name=name)
    def policy(ctx: Context) -> None:
        for event in events:
            ctx.on(event, answer)  # type: ignore[call-overload]

    return policy


def throw(*payload: object) -> None:
    raise RuntimeError("a broken plugin")


async def steer(event: TurnStopping) -> None:
    """Gives each turn up to three steps more than it wants."""
    steps = [e.view for e in event.agent.session.events if isinstance(e.view, StepStart)]
    if steps[-1].step <= 3:
        event.agent.inbox.append("next-step", create_user_message("and this"))
        await anyio.lowlevel.checkpoint()


POLICIES = [
    listening("broken-observers", EVENT, STATUS, QUEUED, ERROR, answer=throw),
    listening("broken-pre-step", PRE_STEP, answer=lambda payload, call_next: throw()),
    listening("broken-step-result", STEP_RESULT, answer=lambda payload, call_next: throw()),
    listening("broken-turn-stop", TURN_STOP, answer=throw),
    listening("broken-policy", PRE_EXECUTE, answer=lambda payload, call_next: throw()),
    listening("strict", PROMPT_SUBMIT, answer=lambda payload, call_next: Block("no")),
    listening("restless", TURN_STOPPING, answer=steer),
]

PARTS = st.sampled_from(
    [
        say("text"),
        think("hm"),
        call("quick"),
        call("slow"),
        call("broken"),
        call("last"),
        call("no"),
    ]
)
REPLIES = st.one_of(
    st.builds(
        lambda parts, cut: reply(*parts, finish=Finish.max_tokens() if cut else None),
        st.lists(PARTS, max_size=4),
        st.sampled_from([False, False, False, True]),
    ),
    st.just(reply(say("par"), fail("SERVER"))),
)
STEPS = st.tuples(
    st.sampled_from(
        [
            "send",
            "send",
            "steer",
            "inject",
            "cancel",
            "keep",
            "settle",
            "dispose",
            "reload",
            "load",
            "load",
            "unload",
        ]
        + ["wait"] * 3
    ),
    st.integers(0, 30),
)


class World:
    """An agent, what was done to it, and what it accepted."""

    def __init__(self, root: Container, loop: Fiber) -> None:
        self.root = root
        self.accepted: list[Message] = []
        self.broken: list[Exception] = []
        self._loop = loop
        self._policies: dict[int, Fiber] = {}
        self._handle: AgentHandle | None = None
        root.on(ERROR, self._note)

    @property
    def agent(self) -> Agent:
        assert self._handle is not None
        return self._handle.agent

    async def begin(self) -> None:
        self._handle = await self.root[Agents].create(session_id="a", agent_options=SCRIPTED)
        self.accepted.append(self.agent.inject("the first context"))

    async def run(self, steps: list[Step]) -> None:
        for what, number in steps:
            if what in ("send", "steer", "inject"):
                self._give(what, f"{what} {len(self.accepted)}")
            elif what in ("cancel", "keep"):
                self.agent.cancel(USER, keep_inbox=what == "keep")
            elif what == "settle":
                await self.agent.when_idle()
            elif what == "dispose":
                await self._revive(self._dispose)
            elif what == "reload":
                await self._revive(self._loop.restart)
            elif what == "load":
                self._load(number % len(POLICIES))
            elif what == "unload":
                await self._unload()
            else:
                await pause(number)

    async def end(self) -> None:
        """Takes everything away that could keep the agent from answering."""
        await self._unload()
        self.agent.cancel(USER, keep_inbox=True)
        await self.agent.when_idle()

    def _give(self, how: str, text: str) -> None:
        give: Callable[[str], Message] = getattr(self.agent, how)
        try:
            self.accepted.append(give(text))
        except AgentDisposedError:
            assert self.agent.disposed

    async def _revive(self, end: Callable[[], object]) -> None:
        await end()  # type: ignore[misc]
        await self.root.settle()
        self._handle = await self.root[Agents].resume(resume_session_id="a", agent_options=SCRIPTED)

    async def _dispose(self) -> None:
        assert self._handle is not None
        await self._handle.dispose()

    def _load(self, which: int) -> None:
        if which not in self._policies:
            self._policies[which] = self.root.plugin(POLICIES[which])

    async def _unload(self) -> None:
        fibers = list(self._policies.values())
        self._policies.clear()
        for fiber in fibers:
            await fiber.dispose()

    def _note(self, failure: AgentFailure) -> None:
        if isinstance(failure.error, LogInvariantError):
            self.broken.append(failure.error)


async def drive(replies: list[Reply], steps: list[Step]) -> None:
    kept = MemorySessions()
    answers = deque(replies)

    def answer(request: GenerateOptions) -> Reply:
        return answers.popleft() if answers else reply(say("done"))

    model = script(*[answer] * 500)
    async with running_harness(plugins=[kept.plugin], model=model) as h:
        for each in (quick, slow, broken, last):
            h.ctx[Tools].register(each)
        world = World(h.ctx, h.loop)
        with anyio.fail_after(60):
            await world.begin()
            await world.run(steps)
            await world.end()
            check(world)
            answers.clear()
            world.agent.send("are you there?")
            await world.agent.when_idle()
        assert isinstance(ends_of(world.agent.session)[-1], Completed | MaxTokens)
        check(world)


def check(world: World) -> None:
    """Checks the log of an agent that has come to rest."""
    session = world.agent.session
    assert world.broken == []
    assert world.agent.status == "idle"
    assert session.open_turn is None
    views = [event.view for event in session.events]
    starts = [view.turn for view in views if isinstance(view, TurnStart)]
    assert starts == list(range(1, len(starts) + 1))
    assert len(ends_of(session)) == len(starts)
    calls = Counter(view.call_id for view in views if isinstance(view, ToolCall))
    answers = Counter(
        block.tool_call_id
        for view in views
        if isinstance(view, ToolResult)
        for block in view.message.content
        if isinstance(block, ToolResultBlock)
    )
    assert answers == calls
    check_pairs(session.derive_messages())
    check_input(world)


def ends_of(session: Session) -> list[object]:
    return [event.view.reason for event in session.events if isinstance(event.view, TurnEnd)]


def check_pairs(history: object) -> None:
    """Each call of an answer is followed by its result, in order."""
    open_calls: list[str] = []
    for message in history:  # type: ignore[attr-defined]
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        for block in results:
            assert block.tool_call_id == open_calls.pop(0)
        if not results:
            assert open_calls == []
        open_calls += [block.id for block in message.tool_calls]
    assert open_calls == []


def check_input(world: World) -> None:
    """All accepted input is pending, discarded, or claimed; what a finished turn took, it ran."""
    session = world.agent.session
    views = [event.view for event in session.events]
    logged = {view.id for view in views if isinstance(view, Message)}
    logged |= {view.message_id for view in views if isinstance(view, PromptBlocked)}
    inserted: list[str] = []
    pending: dict[str, list[str]] = {"next-turn": [], "next-step": []}
    claimed: list[str] = []
    for event in session.events:
        match event.view:
            case InboxSpliced() as change:
                waiting = pending[change.target]
                end = change.start + change.removed_count
                if change.outcome is None:
                    claimed += waiting[change.start : end]
                waiting[change.start : end] = [message.id for message in change.inserted]
                inserted += [message.id for message in change.inserted]
            case TurnEnd(reason=reason):
                if isinstance(reason, Completed | MaxTokens):
                    assert set(claimed) <= logged
                claimed = []
    ids = [message.id for message in world.accepted]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(inserted)
    inbox = world.agent.inbox
    assert [m.id for m in inbox.next_turn] == pending["next-turn"]
    assert [m.id for m in inbox.next_step] == pending["next-step"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(replies=st.lists(REPLIES, max_size=8), steps=st.lists(STEPS, max_size=25))
@settings(max_examples=250, deadline=None)
def test_whatever_happens_the_log_is_sound_and_the_agent_comes_to_rest(
    backend: str, replies: list[Reply], steps: list[Step]
) -> None:
    """L-015, L-179, L-227, S-080: log invariants, input, calls with results, convergence."""
    anyio.run(drive, replies, steps, backend=backend)
