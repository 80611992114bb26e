from collections.abc import Callable

import pytest

from terret_agents import (
    AGENT_DISPOSED,
    CREATED,
    STATUS,
    Agent,
    AgentCreated,
    AgentExistsError,
    AgentHandle,
    AgentOptions,
    Agents,
    Batch,
    CreateOptions,
    FactoryTakenError,
    NoFactoryError,
    ResumeOptions,
    StatusChange,
    TurnAgent,
    TurnOutcome,
    agent_events,
    current_initiator,
    hook,
    publish_agent,
    stored_session,
)
from terret_context import Container, Context, Fiber, plugin
from terret_sessions import CancelCause, Completed, Session, Sessions, StepStart, log_invariants


class Quiet(TurnAgent):
    """Ends each turn after one step without asking anybody."""

    async def run_turn(self, batch: Batch) -> TurnOutcome:
        with self.open_step():
            for message in batch.messages:
                self.session.append("user/message", message, surface_op="append")
        return TurnOutcome(Completed())


class QuietFactory:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    async def create_agent(self, owner_ctx: Context, options: CreateOptions) -> AgentHandle:
        session = self.ctx[Sessions].prepare(options.session_id, seed=options.seed)
        agent = Quiet(self.ctx, session, options.agent_options)
        return await publish_agent(owner_ctx, self.ctx, agent, setup=options.setup)

    async def resume(self, owner_ctx: Context, options: ResumeOptions) -> AgentHandle:
        async with stored_session(self.ctx, options.resume_session_id) as session:
            agent = Quiet(self.ctx, session, options.agent_options)
            return await publish_agent(owner_ctx, self.ctx, agent, source="resume")


@plugin(inject=(Agents, Sessions))
def quiet_loop(ctx: Context) -> None:
    ctx[Agents].set_factory(QuietFactory(ctx))


async def boot(root: Container) -> Fiber:
    for each in (Sessions, log_invariants, Agents):
        root.plugin(each)
    loop = root.plugin(quiet_loop)
    await root.settle()
    return loop


def bare(root: Container, session_id: str) -> Agent:
    """An agent over a session that nobody has entered."""
    return Quiet(root, Session(session_id))


async def test_another_loop_gives_fully_working_agents() -> None:
    """L-001, A-012: a loop is one method; the rules around it are those of `TurnAgent`."""
    async with Container() as root:
        await boot(root)
        async with await root[Agents].create(session_id="a") as handle:
            handle.agent.send("one")
            handle.agent.send("two")
            await handle.agent.when_idle()
            texts = [m.text for m in handle.agent.session.derive_messages()]
            steps = [e for e in handle.agent.session.events if isinstance(e.view, StepStart)]
            assert (texts, len(steps), handle.agent.session.last_turn) == (["one", "two"], 2, 2)


async def test_a_factory_is_required_and_only_one_is_taken() -> None:
    """A-012: the slot is cleared with its owner."""
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(Agents)
        await root.settle()
        with pytest.raises(NoFactoryError, match="agent-loop"):
            await root[Agents].create(session_id="a")
        first = root.plugin(quiet_loop)
        await first.ready()
        second = root.plugin(quiet_loop)
        await root.settle()
        assert isinstance(second.error, FactoryTakenError)
        assert "quiet-loop" in str(second.error)
        await first.dispose()
        await second.restart()
        async with await root[Agents].create(session_id="a") as handle:
            assert handle.agent.id == "a"


async def test_create_goes_through_the_callers_context() -> None:
    """A-012, L-199: what the caller owns ends with the caller."""
    async with Container() as root:
        await boot(root)

        @plugin(inject=(Agents,))
        async def caller(ctx: Context) -> None:
            await ctx[Agents].create(session_id="a")

        fiber = root.plugin(caller)
        await fiber.ready()
        assert [agent.id for agent in root[Agents].list()] == ["a"]
        await fiber.dispose()
        assert root[Agents].list() == ()


async def test_register_publishes_announces_and_ends_with_its_owner() -> None:
    """A-005."""
    async with Container() as root:
        await boot(root)
        seen: list[str] = []
        root.on(CREATED, lambda event: seen.append(f"created {event.agent.id}"))
        root.on(AGENT_DISPOSED, lambda event: seen.append(f"disposed {event.agent.id}"))

        @plugin(inject=(Agents,))
        def owner(ctx: Context) -> None:
            ctx[Agents].register(bare(root, "a"))

        fiber = root.plugin(owner)
        await fiber.ready()
        assert root[Agents].get("a") is not None
        await fiber.dispose()
        assert (root[Agents].get("a"), seen) == (None, ["created a", "disposed a"])


async def test_an_id_is_that_of_the_session_and_taken_once() -> None:
    """A-006, L-185."""
    async with Container() as root:
        await boot(root)
        agents = root[Agents]
        entry = agents.register(bare(root, "a"))
        with pytest.raises(AgentExistsError, match='"a"'):
            agents.register(bare(root, "a"))
        assert [(agent.id, agent.session.id) for agent in agents.list()] == [("a", "a")]
        entry.close()


async def test_a_listener_that_refuses_rolls_back_with_a_paired_disposed() -> None:
    """A-008."""
    async with Container() as root:
        await boot(root)
        disposed: list[str] = []
        root.on(AGENT_DISPOSED, lambda event: disposed.append(event.agent.id))

        def refuse(event: AgentCreated) -> None:
            raise PermissionError("not here")

        root.on(CREATED, refuse)
        with pytest.raises(PermissionError):
            root[Agents].register(bare(root, "a"))
        assert (root[Agents].get("a"), disposed) == (None, ["a"])


async def test_failures_of_disposal_listeners_are_contained_each() -> None:
    """A-009."""
    async with Container() as root:
        await boot(root)
        heard: list[int] = []

        def fail(event: object) -> None:
            heard.append(1)
            raise ValueError

        root.on(AGENT_DISPOSED, fail)
        root.on(AGENT_DISPOSED, fail)
        root[Agents].register(bare(root, "a")).close()
        assert heard == [1, 1]


async def test_a_stale_detach_cannot_remove_a_replacement() -> None:
    """A-010."""
    async with Container() as root:
        await boot(root)
        agents = root[Agents]
        stale = agents.register(bare(root, "a"))
        stale.close()
        replacement = bare(root, "a")
        entry = agents.register(replacement)
        stale.close()
        await stale.aclose()
        assert agents.get("a") is replacement
        entry.close()


async def test_a_detach_asked_for_by_a_creation_listener_waits_for_the_announcement() -> None:
    """A-011: later listeners still find the agent; then it is gone, paired."""
    async with Container() as root:
        await boot(root)
        agents = root[Agents]
        agent = bare(root, "a")
        entry = agents.enter(agent)
        found: list[object] = []
        root.on(CREATED, lambda event: entry.close())
        root.on(CREATED, lambda event: found.append(agents.get("a")))
        root.on(AGENT_DISPOSED, lambda event: found.append("disposed"))
        agents.announce(agent)
        assert found == [agent, "disposed"]
        assert agents.get("a") is None


async def test_the_dispatcher_fixes_the_agent_and_contains_listeners() -> None:
    """A-013, K-011: a conflicting agent in the payload is overwritten."""
    async with Container() as root:
        await boot(root)
        async with (
            await root[Agents].create(session_id="a") as one,
            await root[Agents].create(session_id="b") as two,
        ):
            heard: list[tuple[str, str]] = []

            def note(name: str) -> Callable[[StatusChange], None]:
                def listen(change: StatusChange) -> None:
                    heard.append((name, change.agent.id))
                    raise ValueError

                return listen

            one.agent.ctx.on(STATUS, note("scoped to a"))
            two.agent.ctx.on(STATUS, note("scoped to b"))
            root.on(STATUS, note("global"))
            agent_events(root, one.agent).emit(STATUS, StatusChange(two.agent, "idle"))
            assert heard == [("scoped to a", "a"), ("global", "a")]


def test_causes_are_a_closed_set() -> None:
    """A-014."""
    assert hook("over budget") == CancelCause("hook", "over budget")


async def test_a_disposed_agent_frees_its_id() -> None:
    """A-010, L-195."""
    async with Container() as root:
        await boot(root)
        for _ in range(3):
            async with await root[Agents].create(session_id="a") as handle:
                handle.agent.send("hi")
        assert root[Agents].list() == ()
        assert root[Sessions].list() == ()


async def test_a_driver_does_not_inherit_who_created_its_agent() -> None:
    """L-304: also where a loop names no initiator itself."""
    async with Container() as root:
        await boot(root)
        parent = bare(root, "parent")
        with root[Agents].with_initiator(parent):
            handle = await root[Agents].create(session_id="a")
        seen: list[object] = []

        async def look() -> None:
            seen.append(current_initiator())

        agent = handle.agent
        assert isinstance(agent, Quiet)
        await agent.spawn_driver(look).join()
        assert seen == [None]
        await handle.dispose()


async def test_options_reach_the_agent() -> None:
    """L-020."""
    async with Container() as root:
        await boot(root)
        options = AgentOptions(model="m")
        async with await root[Agents].create(session_id="a", agent_options=options) as handle:
            assert handle.agent.options is options


async def test_the_root_of_an_agent_is_the_one_through_which_all_others_were_made() -> None:
    """A-012, E-045: lineage follows the contexts through which agents were created."""
    async with Container() as root:
        await boot(root)
        agents = root[Agents]
        async with await agents.create(session_id="a") as top:
            middle = await top.agent.ctx[Agents].create(session_id="b")
            low = await middle.agent.ctx[Agents].create(session_id="c")
            lineage = [agents.root_of(each.agent).id for each in (top, middle, low)]
            assert lineage == ["a", "a", "a"]
            assert agents.attention(low.agent) is agents.attention(top.agent)
            async with await agents.create(session_id="d") as other:
                assert agents.attention(other.agent) is not agents.attention(top.agent)


async def test_an_agent_is_called_by_its_preset() -> None:
    """A-012: the preset of the session's header, else the id."""
    preset = Session("a", meta={"agentPreset": "coder"})
    async with Container() as root:
        agents = [Quiet(root, session) for session in (preset, Session("b"))]
        assert [agent.name for agent in agents] == ["coder", "b"]
