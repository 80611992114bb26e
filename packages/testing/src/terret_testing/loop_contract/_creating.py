"""Creation: one transaction, with announcements in pairs."""

import anyio
import anyio.lowlevel
import pytest

from terret_agents import (
    AGENT_DISPOSED,
    CREATED,
    SESSION_START,
    AgentCreated,
    AgentDisposedError,
    AgentExistsError,
    Agents,
    SessionStart,
)
from terret_context import Context
from terret_sessions import CREATED as SESSION_CREATED
from terret_sessions import FLUSH, Completed, SessionExistsError, Sessions, TurnStart
from terret_testing import SCRIPTED, call, say, script
from terret_tools import Tools

from ._chapter import Chapter
from ._kit import create, end_of, owner, ping


class Creating(Chapter):
    """Creation: one transaction, with announcements in pairs."""

    async def test_create_uses_the_id_and_refuses_a_duplicate_without_a_trace(self) -> None:
        """L-185."""
        async with self.harness() as h:
            with pytest.raises(SessionExistsError):
                await create(h.ctx, "test")
            assert h.ctx[Agents].list() == (h.agent,)
            async with await create(h.ctx, "fresh") as handle:
                assert (handle.agent.id, handle.agent.session.id) == ("fresh", "fresh")

    async def test_setup_ends_before_anything_is_published_and_announcements_are_in_order(
        self,
    ) -> None:
        """L-186, L-056: both objects stay unpublished until then."""
        async with self.harness() as h:
            seen: list[str] = []
            h.ctx.on(SESSION_CREATED, lambda session: seen.append("session/created"))
            h.ctx.on(CREATED, lambda event: seen.append("agent/created"))
            h.ctx.on(SESSION_START, lambda event: seen.append(f"start {event.source}"))

            async def setup(ctx: Context) -> object:
                await anyio.lowlevel.checkpoint()
                assert h.ctx[Agents].get("b") is None
                assert h.ctx[Sessions].get("b") is None
                seen.append("setup")
                return lambda: seen.append("commit")

            handle = await h.ctx[Agents].create(session_id="b", agent_options=SCRIPTED, setup=setup)  # type: ignore[arg-type]
            assert seen == ["setup", "commit", "session/created", "agent/created", "start startup"]
            await handle.dispose()

    @pytest.mark.parametrize("late", [False, True])
    async def test_a_failing_setup_or_commit_publishes_nothing_and_frees_the_id(
        self, late: bool
    ) -> None:
        """L-187: the original exception is raised; what setup registered is undone."""
        async with self.harness() as h:
            undone: list[str] = []

            async def setup(ctx: Context) -> object:
                ctx.effect(lambda: lambda: undone.append("x"))

                def commit() -> None:
                    raise LookupError("refused")

                if not late:
                    commit()
                return commit

            with pytest.raises(LookupError, match="refused"):
                await h.ctx[Agents].create(session_id="b", agent_options=SCRIPTED, setup=setup)  # type: ignore[arg-type]
            assert (undone, h.ctx[Agents].get("b"), h.ctx[Sessions].get("b")) == (["x"], None, None)
            async with await create(h.ctx) as handle:
                assert handle.agent.id == "b"

    async def test_cancelling_a_pending_create_rolls_it_back(self) -> None:
        """L-188: and has no effect on a returned handle."""
        async with self.harness() as h:
            waiting = anyio.Event()

            async def setup(ctx: Context) -> None:
                waiting.set()
                await anyio.sleep_forever()

            async with anyio.create_task_group() as group:

                async def pending() -> None:
                    await h.ctx[Agents].create(session_id="b", agent_options=SCRIPTED, setup=setup)

                group.start_soon(pending)
                await waiting.wait()
                group.cancel_scope.cancel()
            handle = await create(h.ctx)
            assert not handle.agent.disposed
            await handle.dispose()

    @pytest.mark.parametrize("provider", [False, True])
    async def test_unload_of_an_owner_during_setup_aborts_and_blocks_publication(
        self,
        provider: bool,
    ) -> None:
        """L-189: of the caller's fiber or of the loop's; the attempt is awaited."""
        async with self.harness() as h:
            ctx = await owner(h)
            waiting = anyio.Event()
            raised: list[Exception] = []
            announced: list[AgentCreated] = []
            h.ctx.on(CREATED, announced.append)

            async def setup(ctx: Context) -> None:
                waiting.set()
                await anyio.sleep_forever()

            async def attempt() -> None:
                try:
                    await ctx[Agents].create(session_id="b", agent_options=SCRIPTED, setup=setup)
                except AgentDisposedError as error:
                    raised.append(error)

            async with anyio.create_task_group() as group:
                group.start_soon(attempt)
                await waiting.wait()
                await (h.loop if provider else ctx.fiber).dispose()
            assert len(raised) == 1
            assert (announced, h.ctx[Sessions].get("b")) == ([], None)

    async def test_the_last_enter_decides_between_creations_with_one_id(self) -> None:
        """L-190: the loser rolls back."""
        async with self.harness() as h:
            go = anyio.Event()
            outcomes: list[object] = []

            async def setup(ctx: Context) -> None:
                await go.wait()

            async def attempt() -> None:
                try:
                    outcomes.append(
                        await h.ctx[Agents].create(
                            session_id="b", agent_options=SCRIPTED, setup=setup
                        )
                    )
                except (SessionExistsError, AgentExistsError) as error:
                    outcomes.append(error)

            async with anyio.create_task_group() as group:
                group.start_soon(attempt)
                group.start_soon(attempt)
                await anyio.lowlevel.checkpoint()
                go.set()
            assert sorted(isinstance(outcome, Exception) for outcome in outcomes) == [False, True]
            [agent] = [agent for agent in h.ctx[Agents].list() if agent.id == "b"]
            assert not agent.disposed
            agent.send("still works", wake=False)
            [handle] = [o for o in outcomes if not isinstance(o, Exception)]
            await handle.dispose()  # type: ignore[attr-defined]

    @pytest.mark.parametrize("stops", [False, True])
    @pytest.mark.parametrize("event", ["session/created", "agent/created", "agent/session-start"])
    async def test_a_publication_that_is_refused_midway_pairs_its_announcements(
        self, event: str, stops: bool
    ) -> None:
        """L-191, L-192: by a veto, or as the listener stopped the owner; the id is free again."""
        async with self.harness() as h:
            ctx = await owner(h)
            seen: list[str] = []
            h.ctx.on(AGENT_DISPOSED, lambda payload: seen.append("agent/disposed"))
            h.ctx.on("session/disposed", lambda session: seen.append("session/disposed"))

            def stop(payload: object) -> None:
                if stops:
                    ctx.fiber.retire()
                elif event != "agent/session-start":
                    raise AgentDisposedError("vetoed")

            h.ctx.on(event, stop)
            if event == "agent/session-start" and not stops:
                await (await create(ctx)).dispose()  # it cannot veto
            else:
                with pytest.raises(AgentDisposedError):
                    await create(ctx)
            agent_announced = event != "session/created"
            assert seen == ["agent/disposed"] * agent_announced + ["session/disposed"]
            assert (h.ctx[Agents].get("b"), h.ctx[Sessions].get("b")) == (None, None)

    async def test_agents_created_through_an_agents_context_are_children(self) -> None:
        """L-194, A-007."""
        async with self.harness() as h:
            child = await create(h.agent.ctx)
            agents = h.ctx[Agents]
            assert (agents.roots(), agents.list()) == ((h.agent,), (h.agent, child.agent))
            assert agents.is_owned_by("b", h.agent)
            assert not agents.is_owned_by("test", child.agent)

    async def test_a_caller_that_injects_only_agents_gets_a_fully_served_agent(self) -> None:
        """L-199."""
        async with self.harness(model=script(call("ping"), say("x"))) as h:
            h.ctx[Tools].register(ping)
            ctx = await owner(h)
            async with await create(ctx) as handle:
                handle.agent.send("go")
                await handle.agent.when_idle()
                assert end_of(handle.agent) == Completed()

    async def test_a_waking_send_during_session_start_runs_after_publication(self) -> None:
        """L-225: queued and latched until then."""
        async with self.harness(model=script(say("x"))) as h:
            statuses: list[str] = []

            def start(event: SessionStart) -> None:
                event.agent.send("hello")
                statuses.append(event.agent.status)

            h.ctx.on(SESSION_START, start)
            handle = await create(h.ctx)
            await handle.agent.when_idle()
            assert statuses == ["idle"]
            assert end_of(handle.agent) == Completed()

    async def test_a_wake_of_session_start_that_lost_its_input_is_forgotten(self) -> None:
        """L-225, L-021: context that is injected later opens no turn."""
        async with self.harness(model=script(say("x"))) as h:
            h.ctx.once(SESSION_START, lambda e: e.agent.inbox.remove(e.agent.send("never mind").id))
            async with await create(h.ctx) as handle:
                agent = handle.agent
                h.ctx.once(FLUSH, lambda session: agent.inject("late context"))
                agent.send("go")
                await agent.when_idle()
                turns = [e for e in agent.session.events if isinstance(e.view, TurnStart)]
                assert len(turns) == 1
                assert [m.text for m in agent.inbox.next_step] == ["late context"]
