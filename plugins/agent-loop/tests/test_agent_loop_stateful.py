"""Whatever happens to an agent, in whatever order: its log is sound and nothing is lost.

Hypothesis draws what a model answers and what is done to the agent meanwhile; afterwards the log
is checked, and that the agent still answers.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terret_agents import (
    DISPOSED,
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
    RequestInvariantError,
    TurnStopping,
)
from terret_context import Container, Context, Fiber, Plugin, plugin
from terret_llm import Finish, GenerateOptions, Message, create_user_message
from terret_sessions import (
    EVENT,
    Aborted,
    Blocked,
    Completed,
    InboxSpliced,
    LogInvariantError,
    MaxTokens,
    PromptBlocked,
    Session,
    SessionEvent,
    Sessions,
    StepStart,
    ToolResult,
    TurnEnd,
)
from terret_testing import (
    SCRIPTED,
    MemorySessions,
    Reply,
    assert_balanced,
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


@plugin(inject=(Tools,))
def toolbox(ctx: Context) -> None:
    for each in (quick, slow, broken, last):
        ctx[Tools].register(each)


@plugin(inject=(Sessions,))
def vetoing(ctx: Context) -> None:
    """Refuses what some tools returned; the loop has to answer the calls all the same."""

    def veto(session: Session, event: SessionEvent) -> None:
        if isinstance(event.view, ToolResult) and "done" in str(event.view.message):
            raise ValueError("not in this log")

    ctx[Sessions].validator(veto)


POLICIES = [
    vetoing,
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
        call("slow"),
        call("broken"),
        call("last"),
        call("no"),
    ]
)
REPLIES = st.one_of(
    st.builds(
        lambda parts, cut: reply(*parts, finish=Finish.max_tokens() if cut else None),
        st.lists(PARTS, min_size=1, max_size=4),
        st.sampled_from([False, False, False, True]),
    ),
    st.just(reply(say("par"), fail("SERVER"))),
)
OFTEN = ["send", "wait", "cancel"] * 3 + ["steer", "settle", "load"] * 2
SELDOM = ["inject", "keep", "dispose", "reload", "unload", "unload all", "tools", "model"]
STEPS = st.tuples(st.sampled_from(OFTEN + SELDOM), st.integers(0, 30))


class World:
    """An agent, what was done to it, and what it accepted."""

    def __init__(self, root: Container, loop: Fiber) -> None:
        self.root = root
        self.accepted: list[Message] = []
        self.injected: set[str] = set()
        self.broken: list[Exception] = []
        self._loop = loop
        self._policies: dict[int, Fiber] = {}
        self._handle: AgentHandle | None = None
        root.on(ERROR, self._note)

    @property
    def agent(self) -> Agent:
        assert self._handle is not None
        return self._handle.agent

    async def begin(self, loaded: set[int]) -> None:
        self._handle = await self.root[Agents].create(session_id="a", agent_options=SCRIPTED)
        for which in loaded:
            self._load(which)
        await self.root.settle()
        self._give("inject", "the first context")
        self._give("send", "the first prompt")

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
            elif what == "unload" and self._policies:
                await self._unload(list(self._policies)[number % len(self._policies)])
            elif what == "unload all":
                await self._unload(*self._policies)
            elif what in ("tools", "model"):
                await self._restart("toolbox" if what == "tools" else "scripted-model")
            else:
                await pause(number)

    async def end(self) -> None:
        """Takes everything away that could keep the agent from answering."""
        await self._unload(*self._policies)
        self.agent.cancel(USER, keep_inbox=True)
        await self.agent.when_idle()

    def _give(self, how: str, text: str) -> None:
        give: Callable[[str], Message] = getattr(self.agent, how)
        try:
            message = give(text)
        except AgentDisposedError:
            assert self.agent.disposed
            return
        self.accepted.append(message)
        if how == "inject":
            self.injected.add(message.id)

    async def _revive(self, end: Callable[[], object]) -> None:
        await end()  # type: ignore[misc]
        await self.root.settle()
        self._handle = await self.root[Agents].resume(resume_session_id="a", agent_options=SCRIPTED)

    async def _dispose(self) -> None:
        assert self._handle is not None
        await self._handle.dispose()

    async def _restart(self, name: str) -> None:
        [fiber] = [each for each in self.root.fibers() if each.plugin and each.plugin.name == name]
        await fiber.restart()

    def _load(self, which: int) -> None:
        if which not in self._policies:
            self._policies[which] = self.root.plugin(POLICIES[which])

    async def _unload(self, *which: int) -> None:
        for fiber in [self._policies.pop(each) for each in which]:
            await fiber.dispose()

    def _note(self, failure: AgentFailure) -> None:
        if isinstance(failure.error, LogInvariantError | RequestInvariantError):
            self.broken.append(failure.error)


async def drive(replies: list[Reply], loaded: set[int], steps: list[Step]) -> None:
    kept = MemorySessions()
    answers = deque(replies)

    def answer(request: GenerateOptions) -> Reply:
        return answers.popleft() if answers else reply(say("done"))

    model = script(*[answer] * 500)
    async with running_harness(plugins=[kept.plugin, toolbox], model=model) as h:
        world = World(h.ctx, h.loop)
        with anyio.fail_after(60):
            await world.begin(loaded)
            await world.run(steps)
            await world.end()
            check(world)
            answers.clear()
            world.agent.send("are you there?")
            await world.agent.when_idle()
        assert isinstance(ends_of(world.agent.session)[-1], Completed | MaxTokens)
        assert not world.agent.inbox.has_pending
        check(world)


def check(world: World) -> None:
    """Checks the log of an agent that has come to rest."""
    session = world.agent.session
    assert world.broken == []
    assert world.agent.status == "idle"
    assert_balanced(session)
    check_input(world)


def ends_of(session: Session) -> list[object]:
    return [event.view.reason for event in session.events if isinstance(event.view, TurnEnd)]


def check_input(world: World) -> None:
    """All accepted input is pending or was run, unless it was dropped or its turn failed."""
    session = world.agent.session
    views = [event.view for event in session.events]
    logged = {view.id for view in views if isinstance(view, Message)}
    logged |= {view.message_id for view in views if isinstance(view, PromptBlocked)}
    pending: dict[str, list[str]] = {"next-turn": [], "next-step": []}
    claimed: set[str] = set()
    dropped: set[str] = set()
    for view in views:
        match view:
            case InboxSpliced() as change:
                waiting = pending[change.target]
                end = change.start + change.removed_count
                removed = waiting[change.start : end]
                waiting[change.start : end] = [message.id for message in change.inserted]
                (claimed if change.outcome is None else dropped).update(removed)
            case TurnEnd(reason=Completed() | MaxTokens()):
                assert claimed <= logged
                claimed = set()
            case TurnEnd(reason=Aborted(cause=cause)) if cause == DISPOSED:
                claimed = set()
            case TurnEnd(reason=reason):
                dropped |= claimed - world.injected if isinstance(reason, Blocked) else claimed
                claimed = set()
    ids = {message.id for message in world.accepted}
    assert len(ids) == len(world.accepted)
    assert ids <= {*logged, *dropped, *pending["next-turn"], *pending["next-step"]}
    inbox = world.agent.inbox
    assert [m.id for m in inbox.next_turn] == pending["next-turn"]
    assert [m.id for m in inbox.next_step] == pending["next-step"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(
    replies=st.lists(REPLIES, min_size=1, max_size=8),
    loaded=st.sets(st.integers(0, len(POLICIES) - 1), max_size=2),
    steps=st.lists(STEPS, min_size=5, max_size=25),
)
@settings(max_examples=250, deadline=None)
def test_whatever_happens_the_log_is_sound_and_the_agent_comes_to_rest(
    backend: str, replies: list[Reply], loaded: set[int], steps: list[Step]
) -> None:
    """L-015, L-154, L-179, L-227, S-080: log and requests, input, calls, convergence."""
    anyio.run(drive, replies, loaded, steps, backend=backend)
