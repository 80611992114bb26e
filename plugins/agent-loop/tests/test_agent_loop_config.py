from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from pydantic import ValidationError

from terret_agents import (
    CONFIG_START_FAILED,
    DISPOSED,
    AgentHandle,
    AgentOptions,
    Agents,
    ConfigStartFailed,
    NoSuchAgentError,
)
from terret_context import Container, Context, Fiber, ServiceKey, plugin
from terret_llm import Llm
from terret_loader import open_harness
from terret_plugin_agent_loop import AgentLoop, AgentLoopConfig
from terret_plugin_session_jsonl import session_jsonl
from terret_sessions import (
    Aborted,
    SessionNotFoundError,
    Sessions,
    TurnEnd,
    TurnStart,
    log_invariants,
)
from terret_system_prompt import SystemPrompt
from terret_testing import ScriptedModel, pause, reply, say, script
from terret_tools import Tools

READY: ServiceKey[bool] = ServiceKey("ready")
MAIN: dict[str, object] = {"id": "main", "provider": "scripted", "model": "scripted"}


@asynccontextmanager
async def booted(
    *entries: dict[str, object],
    model: ScriptedModel | None = None,
    sessions: Path | None = None,
    storage_last: bool = False,
) -> AsyncIterator[Container]:
    """A harness without its loader: services, the loop with these agents, then `ready`."""

    @plugin(name="scripted", inject=(Llm,))
    def scripted(ctx: Context) -> None:
        ctx[Llm].register_adapter(["scripted"], model or script())

    async with Container() as root:
        for each in (Llm, Sessions, log_invariants, SystemPrompt, Agents, Tools, scripted):
            root.plugin(each)
        mounts: list[tuple[object, object]] = [(AgentLoop, {"agents": list(entries)})]
        if sessions is not None:
            storage = (session_jsonl, {"root": str(sessions)})
            mounts.insert(1 if storage_last else 0, storage)
        for mount, config in mounts:
            root.plugin(mount, config)
        await root.settle()
        assert root[Agents].list() == ()
        root.provide(READY, True)
        await root.settle()
        yield root


def failures_of(root: Container) -> list[ConfigStartFailed]:
    failures: list[ConfigStartFailed] = []
    root.on(CONFIG_START_FAILED, failures.append)
    return failures


async def test_configured_agents_start_when_the_harness_is_ready() -> None:
    """L-200: with cwd and a fresh id made of the label."""
    async with booted({**MAIN, "cwd": "/srv", "maxTokens": 9}) as root:
        agent = root[Agents].named("main")
        assert agent is not None
        assert agent.id.startswith("main-session-")
        assert agent.name == "main"
        assert agent.session.header.cwd == "/srv"
        assert agent.options == AgentOptions(provider="scripted", model="scripted", max_tokens=9)
        assert [entry.id for entry in root[Agents].entries()] == ["main"]
        assert root[Agents].named("other") is None


async def test_without_configured_agents_nothing_is_started() -> None:
    """L-200: the loop alone waits for callers."""
    async with booted() as root:
        assert (root[Agents].list(), root[Agents].entries()) == ((), ())


async def test_a_resumed_session_continues_its_log(tmp_path: Path) -> None:
    """L-200, L-203: history and numbering, without duplicate seqs."""
    entry = {**MAIN, "sessionId": "s-1"}
    async with booted(entry, model=script(say("x")), sessions=tmp_path) as root:
        agent = root[Agents].named("main")
        assert agent is not None
        agent.send("a")
        await agent.when_idle()
    model = script(say("y"))
    resumed = {**MAIN, "resumeSessionId": "s-1"}
    async with booted(resumed, model=model, sessions=tmp_path) as root:
        agent = root[Agents].named("main")
        assert agent is not None
        agent.send("b")
        await agent.when_idle()
        events = agent.session.events
        assert [event.seq for event in events] == list(range(len(events)))
        assert [e.view.turn for e in events if isinstance(e.view, TurnStart)] == [1, 2]
        assert [m.text for m in model.requests[0].messages] == ["a", "x", "b"]


async def test_a_missing_log_is_reported_and_contained(tmp_path: Path) -> None:
    """L-200: the other agents of the list start."""
    failures: list[ConfigStartFailed] = []

    async def run() -> None:
        async with Container() as root:
            root.on(CONFIG_START_FAILED, failures.append)
            for each in (Llm, Sessions, SystemPrompt, Agents, Tools):
                root.plugin(each)
            root.plugin(session_jsonl, {"root": str(tmp_path)})
            root.provide(READY, True)
            lost = {**MAIN, "id": "lost", "resumeSessionId": "gone"}
            root.plugin(AgentLoop, {"agents": [lost, MAIN]})
            await root.settle()
            assert root[Agents].named("lost") is None
            assert root[Agents].named("main") is not None

    await run()
    [failure] = failures
    assert (failure.label, failure.session_id) == ("lost", "gone")
    assert isinstance(failure.error, SessionNotFoundError)


async def test_an_exact_session_is_created_without_persistence() -> None:
    """L-201: it is not stored, so it is created."""
    async with booted({**MAIN, "sessionId": "exact"}) as root:
        agent = root[Agents].named("main")
        assert agent is not None
        assert agent.id == "exact"


async def test_an_exact_session_survives_a_reload_of_the_loop(tmp_path: Path) -> None:
    """L-201: it waits for the draining owner of its id and is restored."""
    model = script(reply(pause("p"), say("x")), say("y"))
    async with booted({**MAIN, "sessionId": "exact"}, model=model, sessions=tmp_path) as root:
        first = root[Agents].named("main")
        assert first is not None
        first.send("a")
        await model.reached("p")
        [loop] = root.fibers(AgentLoop)
        await loop.restart()
        await root.settle()
        second = root[Agents].named("main")
        assert second is not None
        assert (second is first, second.id, second.session.last_turn) == (False, "exact", 1)


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ([MAIN, MAIN], 'two agents have the id "main"'),
        ([{**MAIN, "sessionId": "s"}, {"id": "b", "sessionId": "s"}], 'session "s"'),
        ([{**MAIN, "sessionId": "s", "resumeSessionId": "t"}], "not both"),
        ([{**MAIN, "cwd": "relative"}], "absolute"),
        ([{**MAIN, "maxParallelToolCalls": 0}], "greater than 0"),
        ([{**MAIN, "maxTokens": 0}], "greater than 0"),
        ([{"provider": "x"}], "id"),
    ],
)
def test_conflicting_entries_are_refused_before_anything_starts(
    agents: list[dict[str, object]], message: str
) -> None:
    """L-201, L-117."""
    with pytest.raises(ValidationError, match=message):
        AgentLoopConfig.model_validate({"agents": agents})


async def test_an_entry_can_be_started_over_another_session(tmp_path: Path) -> None:
    """L-201: in place of its own; the running instance is disposed first."""
    async with booted(MAIN, model=script(say("x")), sessions=tmp_path) as root:
        agents = root[Agents]
        first = agents.named("main")
        assert first is not None
        second = await agents.start("main", session_id="mine")
        assert first.disposed
        assert (second.id, agents.named("main"), agents.list()) == ("mine", second, (second,))
        second.send("a")
        await second.when_idle()
        third = await agents.start("main", session_id="mine")
        assert third.session.last_turn == 1
        with pytest.raises(NoSuchAgentError, match="known: main"):
            await agents.start("other")


async def test_an_exact_session_waits_for_one_of_its_id_that_is_on_its_way_out() -> None:
    """L-201: and can be cancelled meanwhile."""
    model = script(reply(pause("p"), say("x")))
    async with booted(model=model) as root:
        handle: AgentHandle = await root[Agents].create(
            session_id="exact", agent_options=AgentOptions(provider="scripted", model="scripted")
        )
        handle.retire()
        assert handle.agent.disposed
        with anyio.fail_after(5):
            await root[Agents].released("exact")
        assert root[Agents].get("exact") is None


async def test_the_loop_boots_from_yaml(tmp_path: Path) -> None:
    """L-200: as an entry of harness.yml, with its agents."""
    document = tmp_path / "harness.yml"
    document.write_text(
        "plugins:\n"
        "  llm: {}\n"
        "  sessions: {}\n"
        "  system-prompt: {}\n"
        "  agents: {}\n"
        "  tools: {}\n"
        "  agent-loop:\n"
        "    maxParallelToolCalls: 3\n"
        "    agents: [{id: main, provider: local}]\n"
    )
    async with open_harness(document) as root:
        await root.settle()
        [loop] = root.fibers(AgentLoop)
        assert isinstance(loop, Fiber)
        agent = root[Agents].named("main")
        assert agent is not None
        assert agent.options == AgentOptions(provider="local")


@pytest.mark.parametrize("storage_last", [False, True])
async def test_a_turn_that_the_shutdown_aborts_is_stored_to_its_end(
    tmp_path: Path, storage_last: bool
) -> None:
    """L-195: the loop's agents end before the backend closes, whatever the order of entries."""
    model = script(reply(pause("p"), say("x")))
    exact = {**MAIN, "sessionId": "s"}
    async with booted(exact, model=model, sessions=tmp_path, storage_last=storage_last) as root:
        agent = root[Agents].named("main")
        assert agent is not None
        agent.send("a")
        await model.reached("p")
        agent.inject("pending")
    resumed = {**MAIN, "resumeSessionId": "s"}
    async with booted(resumed, sessions=tmp_path) as root:
        agent = root[Agents].named("main")
        assert agent is not None
        ends = [e.view.reason for e in agent.session.events if isinstance(e.view, TurnEnd)]
        assert ends == [Aborted(DISPOSED)]
        assert [m.text for m in agent.inbox.next_step] == ["pending"]


async def test_a_start_that_the_teardown_interrupts_is_no_failed_start() -> None:
    """L-201, L-202: it waits for a draining owner of its id and is cancelled there."""
    draining, drained = anyio.Event(), anyio.Event()

    async with Container() as root:
        failures = failures_of(root)
        for each in (Llm, Sessions, SystemPrompt, Agents, Tools):
            root.plugin(each)
        loop = root.plugin(AgentLoop, {"agents": [{**MAIN, "sessionId": "exact"}]})
        await root.settle()

        async def setup(ctx: Context) -> None:
            async def slow_end() -> None:
                draining.set()
                await drained.wait()

            ctx.effect(lambda: slow_end)

        old = await root[Agents].create(session_id="exact", setup=setup)
        old.retire()
        await draining.wait()
        root.provide(READY, True)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        loop.retire()
        drained.set()
        await root.settle()
        assert failures == []
        assert root[Agents].list() == ()


async def test_configured_agents_may_be_known_without_being_started() -> None:
    """L-200: with `autostart: false` on the entry `agents` whoever needs one starts it."""
    async with Container() as root:
        for each in (Llm, Sessions, SystemPrompt, (Agents, {"autostart": False}), Tools):
            root.plugin(*each) if isinstance(each, tuple) else root.plugin(each)
        root.plugin(AgentLoop, {"agents": [MAIN]})
        root.provide(READY, True)
        await root.settle()
        agents = root[Agents]
        assert ([entry.id for entry in agents.entries()], agents.list()) == (["main"], ())
        started = await agents.start("main")
        assert agents.named("main") is started
