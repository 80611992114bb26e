from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest

from terret_agents import (
    AGENT_DISPOSED,
    CREATED,
    DISPOSED,
    PRE_STEP,
    SESSION_START,
    STATUS,
    USER,
    Agent,
    AgentCreated,
    AgentDisposedError,
    AgentExistsError,
    AgentHandle,
    AgentOptions,
    Agents,
    Enter,
    NoPersistenceError,
    Reject,
    SessionStart,
    StatusChange,
    StepProposal,
    current_initiator,
)
from terret_context import Context, InactiveFiberError, Next, plugin
from terret_plugin_agent_loop import AgentLoop
from terret_sessions import (
    CREATED as SESSION_CREATED,
)
from terret_sessions import (
    EVENT,
    FLUSH,
    Aborted,
    Completed,
    Session,
    SessionEvent,
    SessionExistsError,
    Sessions,
    StepStart,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from terret_testing import Harness, call, pause, reply, running_harness, say, script
from terret_tools import ToolRun, Tools, tool

SCRIPTED = AgentOptions(provider="scripted", model="scripted")


def end_of(agent: Agent) -> object:
    ends = [e.view.reason for e in agent.session.events if isinstance(e.view, TurnEnd)]
    return ends[-1] if ends else None


async def create(ctx: Context, session_id: str = "b") -> AgentHandle:
    return await ctx[Agents].create(session_id=session_id, agent_options=SCRIPTED)


async def owner(h: Harness, *inject: object) -> Context:
    """The context of a plugin that lives until its fiber is disposed."""

    @plugin(name="owner", inject=(Agents, *inject))
    def mount(ctx: Context) -> None: ...

    fiber = h.ctx.plugin(mount)
    await fiber.ready()
    ctx: Context = fiber.ctx
    return ctx


async def test_create_uses_the_id_and_refuses_a_duplicate_without_a_trace() -> None:
    """L-185."""
    async with running_harness() as h:
        with pytest.raises(SessionExistsError):
            await create(h.ctx, "test")
        assert h.ctx[Agents].list() == (h.agent,)
        async with await create(h.ctx, "fresh") as handle:
            assert (handle.agent.id, handle.agent.session.id) == ("fresh", "fresh")


async def test_setup_ends_before_anything_is_published_and_announcements_are_in_order() -> None:
    """L-186, L-056: both objects stay unpublished until then."""
    async with running_harness() as h:
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
async def test_a_failing_setup_or_commit_publishes_nothing_and_frees_the_id(late: bool) -> None:
    """L-187: the original exception is raised; what setup registered is undone."""
    async with running_harness() as h:
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


async def test_cancelling_a_pending_create_rolls_it_back() -> None:
    """L-188: and has no effect on a returned handle."""
    async with running_harness() as h:
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
    provider: bool,
) -> None:
    """L-189: of the caller's fiber or of the loop's; the attempt is awaited."""
    async with running_harness() as h:
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
            [loop] = h.ctx.fibers(AgentLoop)
            await (loop if provider else ctx.fiber).dispose()
        assert len(raised) == 1
        assert (announced, h.ctx[Sessions].get("b")) == ([], None)


async def test_the_last_enter_decides_between_creations_with_one_id() -> None:
    """L-190: the loser rolls back."""
    async with running_harness() as h:
        go = anyio.Event()
        outcomes: list[object] = []

        async def setup(ctx: Context) -> None:
            await go.wait()

        async def attempt() -> None:
            try:
                outcomes.append(
                    await h.ctx[Agents].create(session_id="b", agent_options=SCRIPTED, setup=setup)
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
    event: str, stops: bool
) -> None:
    """L-191, L-192: by a veto, or because the listener stopped the owner; the id is free again."""
    async with running_harness() as h:
        ctx = await owner(h)
        seen: list[str] = []
        started: list[SessionStart] = []
        h.ctx.on(SESSION_START, started.append)
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
        assert len(started) == (event == "agent/session-start")
        assert (h.ctx[Agents].get("b"), h.ctx[Sessions].get("b")) == (None, None)


async def test_scoped_registrations_live_and_die_with_the_agent() -> None:
    """L-193, L-198."""
    async with running_harness(model=script(say("x"), say("y"))) as h:
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


async def test_agents_created_through_an_agents_context_are_children() -> None:
    """L-194, A-007."""
    async with running_harness() as h:
        child = await create(h.agent.ctx)
        agents = h.ctx[Agents]
        assert (agents.roots(), agents.list()) == ((h.agent,), (h.agent, child.agent))
        assert agents.is_owned_by("b", h.agent)
        assert not agents.is_owned_by("test", child.agent)


async def test_disposal_during_a_turn_ends_it_and_queued_input_never_starts() -> None:
    """L-195, L-100: aborted{disposed}; the registry does not leak."""
    async with running_harness(model=script(reply(pause("p"), say("x")))) as h:
        handle = await create(h.ctx)
        agent = handle.agent
        agent.send("a")
        await h.model.reached("p")
        agent.followup("never")
        await handle.dispose()
        assert end_of(agent) == Aborted(DISPOSED)
        assert sum(isinstance(e.view, TurnStart) for e in agent.session.events) == 1
        assert (h.ctx[Agents].get("b"), h.ctx[Sessions].get("b")) == (None, None)


async def test_dispose_is_idempotent_and_shares_quiescence_with_the_owners_unload() -> None:
    """L-196: all callers return when the agent is gone; the owners keep nothing of it."""
    async with running_harness(model=script(reply(pause("p"), say("x")))) as h:
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


async def test_a_disposed_agent_leaves_nothing_with_its_owner() -> None:
    """L-196: the effects of both owners are retired."""
    async with running_harness() as h:
        ctx = await owner(h)
        [loop] = h.ctx.fibers(AgentLoop)
        before = str(h.ctx.snapshot())
        for number in range(3):
            await (await create(ctx, f"agent-{number}")).dispose()
        await h.ctx.settle()
        assert str(h.ctx.snapshot()) == before
        assert loop.admits


async def test_cancelling_a_caller_of_dispose_does_not_stop_the_teardown() -> None:
    """L-196."""
    async with running_harness(model=script(call("slow"))) as h:
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


async def test_a_caller_that_injects_only_agents_gets_a_fully_served_agent() -> None:
    """L-199."""
    async with running_harness(model=script(call("ping"), say("x"))) as h:

        @tool
        async def ping() -> str:
            """Ping."""
            return "pong"

        h.ctx[Tools].register(ping)
        ctx = await owner(h)
        async with await create(ctx) as handle:
            handle.agent.send("go")
            await handle.agent.when_idle()
            assert end_of(handle.agent) == Completed()


async def test_the_initiator_is_the_very_agent_and_senders_variables_stay_outside() -> None:
    """L-205, L-304: overlapping drivers; context variables of the sender are invisible."""
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    model = script(reply(pause("p"), say("x")), say("y"), say("z"))
    async with running_harness(model=model) as h:
        seen: list[tuple[str, object, str]] = []

        async def look(proposal: StepProposal, call_next: Next[Enter | Reject]) -> Enter | Reject:
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


async def test_input_is_refused_as_soon_as_an_owner_stops_and_disposed_says_so() -> None:
    """L-301, L-302: before any effect of that owner is undone."""
    async with running_harness() as h:
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


async def test_the_driver_exists_when_its_first_turn_start_is_observed() -> None:
    """L-303: a driver that cannot be started leaves neither turn nor status change."""
    async with running_harness(model=script(say("x"))) as h:
        tasks: list[bool] = []

        def observe(session: Session, event: SessionEvent) -> None:
            if isinstance(event.view, TurnStart):
                tasks.append("driver" in str(h.ctx.snapshot()))

        h.ctx.on(EVENT, observe)
        assert "driver" not in str(h.ctx.snapshot())
        await h.send("a")
        assert tasks == [True]
        assert "driver" not in str(h.ctx.snapshot())


async def test_disposal_inside_the_running_notification_prevents_the_turn() -> None:
    """L-087, L-310."""
    async with running_harness() as h:
        handle = await create(h.ctx)

        def stop(change: StatusChange) -> None:
            if change.status == "running":
                handle.retire()

        handle.agent.ctx.on(STATUS, stop)
        handle.agent.send("a")
        await handle.dispose()
        assert not any(isinstance(e.view, TurnStart) for e in handle.agent.session.events)


async def test_an_agent_whose_owner_unloads_drains_its_turn() -> None:
    """L-305, L-127: cleanup of a body, appends and contexts work; late contexts open no turn."""
    async with running_harness(model=script(call("slow"))) as h:
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


async def test_awaiting_dispose_from_a_tool_body_does_not_deadlock() -> None:
    """L-220: the body is cancelled like any other."""
    async with running_harness(model=script(call("quit"))) as h:
        handle = await create(h.ctx)

        @tool
        async def quit() -> str:
            """Dispose the agent that runs this."""
            await handle.dispose()
            return "never"

        h.ctx[Tools].register(quit)
        handle.agent.send("go")
        await handle.agent.when_idle()
        await handle.dispose()
        assert end_of(handle.agent) == Aborted(DISPOSED)


async def test_cancelling_the_drivers_task_from_outside_closes_the_log() -> None:
    """L-219: aborted{disposed}, in balance; then the cancellation goes on."""
    async with running_harness(model=script(reply(say("x"), pause("p")))) as h:
        handle = await create(h.ctx)
        agent = handle.agent
        agent.send("go")
        await h.model.reached("p")
        await agent.ctx.fiber.dispose()
        assert end_of(agent) == Aborted(DISPOSED)
        assert [e.type for e in agent.session.events][-2:] == ["step/end", "turn/end"]
        assert agent.status == "idle"
        await handle.dispose()


async def test_the_flush_after_a_turn_is_not_cut_short_by_a_teardown() -> None:
    """L-180, L-219: what the turn wrote becomes durable."""
    async with running_harness(model=script(say("x"))) as h:
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


async def test_a_waking_send_during_session_start_runs_after_publication() -> None:
    """L-225: queued and latched until then."""
    async with running_harness(model=script(say("x"))) as h:
        statuses: list[str] = []

        def start(event: SessionStart) -> None:
            event.agent.send("hello")
            statuses.append(event.agent.status)

        h.ctx.on(SESSION_START, start)
        handle = await create(h.ctx)
        await handle.agent.when_idle()
        assert statuses == ["idle"]
        assert end_of(handle.agent) == Completed()


async def test_a_wake_of_session_start_that_lost_its_input_is_forgotten() -> None:
    """L-225, L-021: context that is injected later opens no turn."""
    async with running_harness(model=script(say("x"))) as h:
        h.ctx.once(SESSION_START, lambda e: e.agent.inbox.remove(e.agent.send("never mind").id))
        async with await create(h.ctx) as handle:
            agent = handle.agent
            h.ctx.once(FLUSH, lambda session: agent.inject("late context"))
            agent.send("go")
            await agent.when_idle()
            turns = [e for e in agent.session.events if isinstance(e.view, TurnStart)]
            assert len(turns) == 1
            assert [m.text for m in agent.inbox.next_step] == ["late context"]


async def test_nothing_is_latched_or_replayed_for_an_agent_that_ends() -> None:
    """L-310: after the cause `disposed`, and when an owner stops before convergence."""
    async with running_harness(model=script(reply(pause("p")), reply(pause("q")))) as h:
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


async def test_an_agent_whose_scope_was_disposed_accepts_nothing() -> None:
    """L-301: although no teardown has begun."""
    async with running_harness() as h:
        handle = await create(h.ctx)
        agent = handle.agent
        await agent.ctx.fiber.dispose()
        with pytest.raises(AgentDisposedError):
            agent.send("late")
        assert len(agent.session.events) == 0
        await handle.dispose()


async def test_a_run_reentered_by_the_cancels_idle_transition_is_drained_first() -> None:
    """L-197: disposal waits for it."""
    async with running_harness(model=script(reply(pause("p")), reply(pause("q")))) as h:
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
        assert not any(isinstance(e.view, StepStart) for e in agent.session.events[-1:])


async def test_resume_needs_persistence() -> None:
    """L-203: and says what to install."""
    async with running_harness() as h:
        with pytest.raises(NoPersistenceError, match="session-jsonl"):
            await h.ctx[Agents].resume(resume_session_id="x")


async def test_unload_of_the_loop_ends_its_agents() -> None:
    """L-196: the factory's fiber is an owner too."""
    async with running_harness(model=script(reply(pause("p")))) as h:
        h.agent.send("a")
        await h.model.reached("p")
        [loop] = h.ctx.fibers(AgentLoop)
        await loop.dispose()
        assert h.agent.disposed
        assert end_of(h.agent) == Aborted(DISPOSED)
        assert h.ctx[Agents].list() == ()


async def test_the_loop_service_creates_at_once() -> None:
    """L-185: without a setup, owned by the accessing fiber."""
    async with running_harness(model=script(say("x"))) as h:
        ctx = await owner(h, AgentLoop)
        agent = ctx[AgentLoop].create("b", SCRIPTED)
        agent.send("a")
        await agent.when_idle()
        assert end_of(agent) == Completed()
        with pytest.raises(SessionExistsError):
            ctx[AgentLoop].create("b", SCRIPTED)
        await ctx.fiber.dispose()
        assert h.ctx[Agents].get("b") is None
