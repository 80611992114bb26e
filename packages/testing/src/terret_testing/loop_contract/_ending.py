"""The end of an agent: drained, closed, forgotten."""

import anyio
import anyio.lowlevel
import pytest

from terret_agents import AGENT_DISPOSED, DISPOSED, STATUS, USER, Agents, StatusChange
from terret_context import InactiveFiberError
from terret_sessions import (
    FLUSH,
    Aborted,
    Completed,
    Session,
    Sessions,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from terret_testing import call, pause, reply, say, script
from terret_tools import ToolRun, Tools, tool

from ._chapter import Chapter
from ._kit import create, end_of, note, owner


class Ending(Chapter):
    """The end of an agent: drained, closed, forgotten."""

    async def test_scoped_registrations_live_and_die_with_the_agent(self) -> None:
        """L-193, L-198."""
        async with self.harness(model=script(say("x"), say("y"))) as h:
            handle = await create(h.ctx)
            heard: list[str] = []
            handle.agent.ctx.on(STATUS, lambda change: heard.append(change.agent.id))
            await h.send("a")
            assert heard == []
            handle.agent.send("b")
            await handle.agent.when_idle()
            assert heard == ["b", "b"]
            await handle.dispose()
            with pytest.raises(InactiveFiberError):
                handle.agent.ctx.on(STATUS, print)

    async def test_disposal_during_a_turn_ends_it_and_queued_input_never_starts(self) -> None:
        """L-195, L-100: aborted{disposed}; the registry does not leak."""
        async with self.harness(model=script(reply(pause("p"), say("x")))) as h:
            handle = await create(h.ctx)
            agent = handle.agent
            agent.send("a")
            await h.model.reached("p")
            agent.followup("never")
            await handle.dispose()
            assert end_of(agent) == Aborted(DISPOSED)
            assert sum(isinstance(e.view, TurnStart) for e in agent.session.events) == 1
            assert (h.ctx[Agents].get("b"), h.ctx[Sessions].get("b")) == (None, None)

    async def test_dispose_is_idempotent_and_shares_quiescence_with_the_owners_unload(self) -> None:
        """L-196: all callers return when the agent is gone; the owners keep nothing of it."""
        async with self.harness(model=script(reply(pause("p"), say("x")))) as h:
            ctx = await owner(h)
            handle = await create(ctx)
            handle.agent.send("a")
            await h.model.reached("p")
            gone: list[str] = []
            h.ctx.on(AGENT_DISPOSED, lambda event: gone.append(event.agent.id))
            async with anyio.create_task_group() as group:
                group.start_soon(handle.dispose)
                group.start_soon(handle.dispose)
                group.start_soon(ctx.fiber.dispose)
            assert (gone, handle.agent.status) == (["b"], "idle")
            await handle.dispose()

    async def test_a_disposed_agent_leaves_nothing_with_its_owner(self) -> None:
        """L-196: the effects of both owners are retired."""
        async with self.harness() as h:
            ctx = await owner(h)
            before = str(h.ctx.snapshot())
            for number in range(3):
                await (await create(ctx, f"agent-{number}")).dispose()
            await h.ctx.settle()
            assert str(h.ctx.snapshot()) == before
            assert h.loop.admits

    async def test_cancelling_a_caller_of_dispose_does_not_stop_the_teardown(self) -> None:
        """L-196."""
        async with self.harness(model=script(call("slow"))) as h:
            running, cleaning, released = anyio.Event(), anyio.Event(), anyio.Event()

            @tool
            async def slow() -> str:
                """Clean up slowly."""
                running.set()
                try:
                    await anyio.Event().wait()
                    return "never"
                finally:
                    with anyio.CancelScope(shield=True):
                        cleaning.set()
                        await released.wait()

            h.ctx[Tools].register(slow)
            handle = await create(h.ctx)
            handle.agent.send("go")
            await running.wait()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(handle.dispose)
                    await cleaning.wait()
                    scope.cancel()
            released.set()
            await handle.dispose()
            assert h.ctx[Agents].get("b") is None

    async def test_an_agent_whose_owner_unloads_drains_its_turn(self) -> None:
        """L-305, L-127: a body may clean up, appends work, late contexts open no turn."""
        async with self.harness(model=script(call("slow"))) as h:
            running = anyio.Event()

            @tool
            async def slow(run: ToolRun) -> str:
                """Report at the end."""
                running.set()
                try:
                    await anyio.Event().wait()
                    return "never"
                finally:
                    with anyio.CancelScope(shield=True):
                        await anyio.lowlevel.checkpoint()
                        run.defer_context(note("late"))

            h.ctx[Tools].register(slow)
            ctx = await owner(h)
            handle = await create(ctx)
            handle.agent.send("go")
            await running.wait()
            await ctx.fiber.dispose()
            events = handle.agent.session.events
            [result] = [e.view for e in events if isinstance(e.view, ToolResult)]
            assert result.error is not None
            assert (result.error.code, end_of(handle.agent)) == ("ABORTED", Aborted(DISPOSED))
            assert [m.text for m in handle.agent.inbox.next_step] == ["late"]

    async def test_awaiting_dispose_from_a_tool_body_does_not_deadlock(self) -> None:
        """L-220: the body is cancelled like any other."""
        async with self.harness(model=script(call("leave"))) as h:
            handle = await create(h.ctx)

            @tool
            async def leave() -> str:
                """Dispose the agent that runs this."""
                await handle.dispose()
                return "never"

            h.ctx[Tools].register(leave)
            handle.agent.send("go")
            await handle.agent.when_idle()
            await handle.dispose()
            assert end_of(handle.agent) == Aborted(DISPOSED)

    async def test_cancelling_the_drivers_task_from_outside_closes_the_log(self) -> None:
        """L-219: aborted{disposed}, in balance; then the cancellation goes on."""
        async with self.harness(model=script(reply(say("x"), pause("p")))) as h:
            handle = await create(h.ctx)
            agent = handle.agent
            agent.send("go")
            await h.model.reached("p")
            await agent.ctx.fiber.dispose()
            assert end_of(agent) == Aborted(DISPOSED)
            assert [e.type for e in agent.session.events][-2:] == ["step/end", "turn/end"]
            assert agent.status == "idle"
            await handle.dispose()

    async def test_a_run_reentered_by_the_cancels_idle_transition_is_drained_first(self) -> None:
        """L-197: disposal waits for it."""
        async with self.harness(model=script(reply(pause("p")), reply(pause("q")))) as h:
            handle = await create(h.ctx)
            agent = handle.agent
            again = [True]

            def resend(change: StatusChange) -> None:
                if change.status == "idle" and again:
                    again.clear()
                    agent.send("again")

            agent.ctx.on(STATUS, resend)
            agent.send("a")
            await h.model.reached("p")
            agent.cancel(USER)
            await h.model.reached("q")
            await handle.dispose()
            assert (agent.status, end_of(agent)) == ("idle", Aborted(DISPOSED))
            starts = [e for e in agent.session.events if isinstance(e.view, TurnStart)]
            ends = [e for e in agent.session.events if isinstance(e.view, TurnEnd)]
            assert len(starts) == len(ends) == 2

    async def test_unload_of_the_loop_ends_its_agents(self) -> None:
        """L-196: the factory's fiber is an owner too."""
        async with self.harness(model=script(reply(pause("p")))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            await h.loop.dispose()
            assert h.agent.disposed
            assert end_of(h.agent) == Aborted(DISPOSED)
            assert h.ctx[Agents].list() == ()

    async def test_a_drain_that_outlasts_grace_frees_the_id_all_the_same(self) -> None:
        """L-196, L-219: it is recorded; a new agent may take the id at once."""
        running, release = anyio.Event(), anyio.Event()

        @tool
        async def stuck() -> str:
            """Shield itself from every cancellation."""
            running.set()
            with anyio.CancelScope(shield=True):
                await release.wait()
            return "late"

        async with self.harness(model=script(call("stuck")), grace=0.05) as h:
            failures: list[str] = []
            h.ctx.on("internal/error", lambda failure: failures.append(str(failure.error)))
            h.ctx[Tools].register(stuck)
            handle = await create(h.ctx)
            handle.agent.send("go")
            await running.wait()
            try:
                await handle.dispose()
                assert (h.ctx[Agents].get("b"), h.ctx[Sessions].get("b")) == (None, None)
                again = await create(h.ctx)
                assert not again.agent.disposed
            finally:
                release.set()
            await handle.agent.when_idle()
            assert isinstance(handle.agent.session.events[-1].view, TurnEnd)
            assert any("undoing agent b" in text for text in failures)

    async def test_the_flush_after_a_turn_is_not_cut_short_by_a_teardown(self) -> None:
        """L-180, L-219: what the turn wrote becomes durable."""
        async with self.harness(model=script(say("x"))) as h:
            handle = await create(h.ctx)
            flushing, flushed = anyio.Event(), anyio.Event()

            async def flush(session: Session) -> None:
                flushing.set()
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
                flushed.set()

            h.ctx.on(FLUSH, flush)
            handle.agent.send("go")
            await flushing.wait()
            await handle.agent.ctx.fiber.dispose()
            assert flushed.is_set()
            assert end_of(handle.agent) == Completed()
            await handle.dispose()
