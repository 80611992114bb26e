"""Who may still be heard: admission, and the context that a turn runs in."""

from contextvars import ContextVar

import pytest

from terret_agents import (
    DISPOSED,
    PRE_STEP,
    STATUS,
    USER,
    AgentDisposedError,
    Agents,
    Enter,
    Reject,
    StatusChange,
    StepProposal,
    current_initiator,
)
from terret_context import Next
from terret_sessions import EVENT, Session, SessionEvent, TurnStart
from terret_testing import pause, reply, say, script

from ._chapter import Chapter
from ._kit import create, owner


class Admitting(Chapter):
    """Who may still be heard: admission, and the context that a turn runs in."""

    async def test_the_initiator_is_the_very_agent_and_senders_variables_stay_outside(self) -> None:
        """L-205, L-304: overlapping drivers; context variables of the sender are invisible."""
        tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
        model = script(reply(pause("p"), say("x")), say("y"), say("z"))
        async with self.harness(model=model) as h:
            seen: list[tuple[str, object, str]] = []

            async def look(
                proposal: StepProposal, call_next: Next[Enter | Reject]
            ) -> Enter | Reject:
                seen.append((proposal.agent.id, current_initiator(), tenant.get()))
                return await call_next()

            h.ctx.on(PRE_STEP, look)
            child = await create(h.agent.ctx)
            tenant.set("acme")
            with h.ctx[Agents].with_initiator(h.agent):
                h.agent.send("a")
                await h.model.reached("p")
                child.agent.send("b")
                await child.agent.when_idle()
                assert current_initiator() is h.agent
            h.model.release("p")
            await h.agent.when_idle()
            assert seen == [("test", h.agent, "nobody"), ("b", child.agent, "nobody")]
            assert current_initiator() is None

    async def test_input_is_refused_as_soon_as_an_owner_stops_and_disposed_says_so(self) -> None:
        """L-301, L-302: before any effect of that owner is undone."""
        async with self.harness() as h:
            ctx = await owner(h)
            handle = await create(ctx)
            agent = handle.agent
            states: list[tuple[bool, int]] = []

            def undo() -> None:
                before = len(agent.session.events)
                with pytest.raises(AgentDisposedError):
                    agent.send("late")
                states.append((agent.disposed, len(agent.session.events) - before))

            ctx.effect(lambda: undo)
            await ctx.fiber.dispose()
            assert states == [(True, 0)]

    async def test_the_driver_exists_when_its_first_turn_start_is_observed(self) -> None:
        """L-303: a driver that cannot be started leaves neither turn nor status change."""
        async with self.harness(model=script(say("x"))) as h:
            tasks: list[bool] = []

            def observe(session: Session, event: SessionEvent) -> None:
                if isinstance(event.view, TurnStart):
                    tasks.append("driver" in str(h.ctx.snapshot()))

            h.ctx.on(EVENT, observe)
            assert "driver" not in str(h.ctx.snapshot())
            await h.send("a")
            assert tasks == [True]
            assert "driver" not in str(h.ctx.snapshot())

    async def test_disposal_inside_the_running_notification_prevents_the_turn(self) -> None:
        """L-087, L-310."""
        async with self.harness() as h:
            handle = await create(h.ctx)

            def stop(change: StatusChange) -> None:
                if change.status == "running":
                    handle.retire()

            handle.agent.ctx.on(STATUS, stop)
            handle.agent.send("a")
            await handle.dispose()
            assert not any(isinstance(e.view, TurnStart) for e in handle.agent.session.events)

    async def test_nothing_is_latched_or_replayed_for_an_agent_that_ends(self) -> None:
        """L-310: after the cause `disposed`, and when an owner stops before convergence."""
        async with self.harness(model=script(reply(pause("p")), reply(pause("q")))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.cancel(DISPOSED, keep_inbox=True)
            h.agent.send("not latched")
            await h.agent.when_idle()
            assert [m.text for m in h.agent.inbox.next_turn] == ["not latched"]

            ctx = await owner(h)
            handle = await create(ctx)
            statuses: list[str] = []
            h.ctx.on(STATUS, lambda change: statuses.append(change.status))
            handle.agent.send("a")
            await h.model.reached("q")
            handle.agent.cancel(USER)
            handle.agent.send("latched")
            ctx.fiber.retire()
            await handle.agent.when_idle()
            assert statuses == ["running", "idle"]

    async def test_an_agent_whose_scope_was_disposed_accepts_nothing(self) -> None:
        """L-301: although no teardown has begun."""
        async with self.harness() as h:
            handle = await create(h.ctx)
            agent = handle.agent
            await agent.ctx.fiber.dispose()
            with pytest.raises(AgentDisposedError):
                agent.send("late")
            assert len(agent.session.events) == 0
            await handle.dispose()
