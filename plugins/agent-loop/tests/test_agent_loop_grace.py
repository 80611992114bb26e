from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event as ThreadEvent

import anyio

from terret_agents import USER, AgentHandle, AgentOptions, Agents
from terret_context import Container, Context, plugin
from terret_llm import Llm
from terret_plugin_agent_loop import AgentLoop
from terret_sessions import Aborted, Sessions, ToolResult, TurnEnd, log_invariants
from terret_system_prompt import SystemPrompt
from terret_testing import ScriptedModel, call, script
from terret_tools import Tools, tool

SCRIPTED = AgentOptions(provider="scripted", model="scripted")


@asynccontextmanager
async def impatient(model: ScriptedModel) -> AsyncIterator[tuple[Container, AgentHandle]]:
    """A harness whose grace is short, with one agent."""

    @plugin(name="scripted", inject=(Llm,))
    def scripted(ctx: Context) -> None:
        ctx[Llm].register_adapter(["scripted"], model)

    services = (Llm, Sessions, log_invariants, SystemPrompt, Agents, Tools, scripted, AgentLoop)
    async with Container(grace=0.05) as root:
        for each in services:
            root.plugin(each)
        await root.settle()
        yield root, await root[Agents].create(session_id="a", agent_options=SCRIPTED)


async def test_a_thread_that_ignores_the_cancel_is_abandoned_and_its_result_is_unknown() -> None:
    """L-309, L-217: the turn closes in time; what the thread returns later is dropped."""
    release, started = ThreadEvent(), ThreadEvent()

    @tool
    def stubborn() -> str:
        """Ignore everything."""
        started.set()
        release.wait(10)
        return "late"

    async with impatient(script(call("stubborn"))) as (root, handle):
        root[Tools].register(stubborn)
        handle.agent.send("go")
        await anyio.to_thread.run_sync(started.wait)
        handle.agent.cancel(USER)
        await handle.agent.when_idle()
        payloads = [event.view for event in handle.agent.session.events]
        [result] = [payload for payload in payloads if isinstance(payload, ToolResult)]
        assert result.error is not None
        assert result.error.code == "TOOL_OUTCOME_UNKNOWN"
        assert payloads[-1] == TurnEnd(1, Aborted(USER))
        release.set()


async def test_a_drain_that_outlasts_grace_frees_the_id_all_the_same() -> None:
    """L-196, L-219: it is recorded; a new agent may take the id at once."""
    running, release = anyio.Event(), anyio.Event()

    @tool
    async def stuck() -> str:
        """Shield itself from every cancellation."""
        running.set()
        with anyio.CancelScope(shield=True):
            await release.wait()
        return "late"

    async with impatient(script(call("stuck"))) as (root, handle):
        failures: list[str] = []
        root.on("internal/error", lambda failure: failures.append(str(failure.error)))
        root[Tools].register(stuck)
        handle.agent.send("go")
        await running.wait()
        try:
            await handle.dispose()
            assert (root[Agents].get("a"), root[Sessions].get("a")) == (None, None)
            again = await root[Agents].create(session_id="a", agent_options=SCRIPTED)
            assert not again.agent.disposed
        finally:
            release.set()
        await handle.agent.when_idle()
        assert isinstance(handle.agent.session.events[-1].view, TurnEnd)
        assert any("undoing agent a" in text for text in failures)
