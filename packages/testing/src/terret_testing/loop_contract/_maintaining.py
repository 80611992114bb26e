"""Maintenance, and waiting for an agent to be idle."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from terret_agents import STATUS, USER, Agent, AgentBusyError, Agents, MaintenanceAbortedError
from terret_sessions import Completed, TurnStart
from terret_testing import Harness, pause, reply, say, script

from ._chapter import Chapter


class Job:
    """A maintenance job that waits until it is released."""

    def __init__(self) -> None:
        self.begun, self.released = anyio.Event(), anyio.Event()

    async def __call__(self) -> str:
        self.begun.set()
        await self.released.wait()
        return "done"


@asynccontextmanager
async def maintained(h: Harness, outcomes: list[object]) -> AsyncIterator[Job]:
    """Runs a job for the length of the block and collects what became of it."""
    job = Job()

    async def run() -> None:
        try:
            outcomes.append(await h.agent.run_maintenance(job))
        except MaintenanceAbortedError as error:
            outcomes.append(error.code)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await job.begun.wait()
        yield job


class Maintaining(Chapter):
    """Maintenance, and waiting for an agent to be idle."""

    async def test_maintenance_is_exclusive_and_reads_as_idle(self) -> None:
        """L-223: AGENT_BUSY for a second job, and for a job during a turn."""
        async with self.harness(model=script(reply(pause("p"), say("x")))) as h:
            statuses: list[str] = []
            outcomes: list[object] = []
            h.ctx.on(STATUS, lambda change: statuses.append(change.status))
            async with maintained(h, outcomes) as job:
                assert h.agent.status == "idle"
                with pytest.raises(AgentBusyError, match="maintenance"):
                    await h.agent.run_maintenance(Job())
                job.released.set()
            assert (outcomes, statuses) == (["done"], [])
            h.agent.send("a")
            await h.model.reached("p")
            with pytest.raises(AgentBusyError, match="turn 1"):
                await h.agent.run_maintenance(Job())
            h.model.release("p")
            await h.agent.when_idle()

    async def test_waking_input_waits_behind_maintenance(self) -> None:
        """L-223: and when_idle covers both."""
        async with self.harness(model=script(say("x"))) as h:
            async with maintained(h, []) as job:
                h.agent.send("a")
                assert h.session.last_turn == 0
                job.released.set()
                await h.agent.when_idle()
                assert h.turn_end == Completed()
            self.assert_lines(h, "user: a", "assistant: x")

    @pytest.mark.parametrize("keep", [False, True])
    async def test_cancel_reaches_maintenance_and_clears_the_latch_unless_told_not_to(
        self,
        keep: bool,
    ) -> None:
        """L-223."""
        async with self.harness(model=script(say("x"))) as h:
            outcomes: list[object] = []
            async with maintained(h, outcomes):
                h.agent.send("a")
                h.agent.cancel(USER, keep_inbox=keep)
            await h.agent.when_idle()
            assert outcomes == ["ABORTED"]
            assert h.session.last_turn == (1 if keep else 0)

    async def test_cancelling_the_caller_ends_its_maintenance(self) -> None:
        """L-223: the agent is free again."""
        async with self.harness(model=script(say("x"))) as h:
            job = Job()
            async with anyio.create_task_group() as group:
                group.start_soon(h.agent.run_maintenance, job)
                await job.begun.wait()
                group.cancel_scope.cancel()
            assert await h.send("a") == "x"

    async def test_teardown_stops_maintenance(self) -> None:
        """L-223, L-196."""
        async with self.harness() as h:
            handle = await h.ctx[Agents].create(session_id="b")
            job = Job()
            outcomes: list[str] = []

            async def run(agent: Agent) -> None:
                try:
                    await agent.run_maintenance(job)
                except MaintenanceAbortedError as error:
                    outcomes.append(error.cause)

            async with anyio.create_task_group() as group:
                group.start_soon(run, handle.agent)
                await job.begun.wait()
                await handle.dispose()
            assert outcomes == ["disposed"]

    async def test_an_idle_agent_owns_no_task(self) -> None:
        """L-303: a task exists only while there is work."""
        async with self.harness(model=script(say("x"))) as h:
            await h.send("a")
            assert "driver" not in str(h.ctx.snapshot())
            h.agent.inject("context")
            assert "driver" not in str(h.ctx.snapshot())

    async def test_waiters_return_together_and_at_once_when_idle(self) -> None:
        """L-179, L-089."""
        async with self.harness(model=script(reply(pause("p"), say("x")))) as h:
            await h.agent.when_idle()
            h.agent.send("a")
            returned: list[int] = []

            async def wait() -> None:
                await h.agent.when_idle()
                returned.append(sum(isinstance(e.view, TurnStart) for e in h.events))

            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                group.start_soon(wait)
                await h.model.reached("p")
                assert returned == []
                h.model.release("p")
            assert returned == [1, 1]
