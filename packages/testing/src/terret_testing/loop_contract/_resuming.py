"""Agents over stored sessions."""

import anyio
import anyio.lowlevel
import pytest

from terret_agents import (
    SESSION_START,
    AgentDisposedError,
    Agents,
    NoPersistenceError,
    SessionStart,
)
from terret_sessions import (
    Completed,
    Interrupted,
    SessionExistsError,
    SessionMeta,
    SessionNotFoundError,
    Sessions,
    StoredLog,
    TurnEnd,
    TurnStart,
)
from terret_testing import MemorySessions, pause, reply, say, script

from ._chapter import Chapter
from ._kit import create, end_of, headers, owner, resume


class SlowSessions(MemorySessions):
    """Sessions whose storage does not answer while it is asleep."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = False
        self.asked = anyio.Event()

    async def load_stored(self, id: str) -> StoredLog | None:
        if self.asleep:
            self.asked.set()
            await anyio.sleep_forever()
        return await super().load_stored(id)


class Resuming(Chapter):
    """Agents over stored sessions."""

    async def test_resume_needs_persistence_and_a_stored_session(self) -> None:
        """L-203: it says what to install, and which session there is not."""
        async with self.harness() as h:
            with pytest.raises(NoPersistenceError, match="session-jsonl"):
                await resume(h.ctx)
        async with self.harness(plugins=[MemorySessions().plugin]) as h:
            with pytest.raises(SessionNotFoundError):
                await resume(h.ctx)

    async def test_a_resumed_agent_goes_on_with_history_and_numbers(self) -> None:
        """L-203, L-007, L-143: without duplicate seqs; `resume` is the reason of its header."""
        kept = MemorySessions()
        async with self.harness(plugins=[kept.plugin], model=script(say("x"), say("y"))) as h:
            async with await create(h.ctx) as first:
                first.agent.send("a")
                await first.agent.when_idle()
            async with await resume(h.ctx) as second:
                second.agent.send("b")
                await second.agent.when_idle()
                events = second.agent.session.events
        assert [event.seq for event in events] == list(range(len(events)))
        assert [e.view.turn for e in events if isinstance(e.view, TurnStart)] == [1, 2]
        assert [m.text for m in h.requests[1].messages] == ["a", "x", "b"]
        assert len(kept.rows["b"]) == len(events)

    async def test_a_resumed_agent_is_announced_as_such(self) -> None:
        """L-056: session-start says `resume`, once."""
        async with self.harness(plugins=[MemorySessions().plugin], model=script(say("x"))) as h:
            async with await create(h.ctx) as first:
                first.agent.send("a")
                await first.agent.when_idle()
            seen: list[SessionStart] = []
            h.ctx.on(SESSION_START, seen.append)
            async with await resume(h.ctx) as second:
                assert [(start.agent, start.source) for start in seen] == [(second.agent, "resume")]

    async def test_pending_context_survives_without_a_turn(self) -> None:
        """L-034: it waits for a wake again."""
        async with self.harness(plugins=[MemorySessions().plugin], model=script(say("x"))) as h:
            async with await create(h.ctx) as first:
                first.agent.inject("context")
            async with await resume(h.ctx) as second:
                agent = second.agent
                assert (agent.status, agent.session.last_turn) == ("idle", 0)
                agent.send("hi")
                await agent.when_idle()
        assert [m.text for m in h.requests[0].messages] == ["context", "hi"]

    async def test_lineage_and_seed_boundary_are_kept(self) -> None:
        """L-203: parent, depth, origin and the length of the seed."""
        async with self.harness(plugins=[MemorySessions().plugin], model=script(say("x"))) as h:
            await h.send("a")
            seed = tuple(h.events)
            meta = SessionMeta(
                parent_session="test", seed_length=len(seed), origin="subagent", delegation_depth=1
            )
            async with await h.ctx[Agents].create(session_id="b", seed=seed, meta=meta) as first:
                first.agent.inject("context")
                header = first.agent.session.header
                boundary = first.agent.session.first_live_seq
            async with await resume(h.ctx) as second:
                session = second.agent.session
                assert (session.header, header.parent_session) == (header, "test")
                assert session.header.seed_length == boundary

    async def test_a_turn_that_a_crash_left_open_is_closed_before_the_agent_exists(self) -> None:
        """L-203: repaired as interrupted; a live session cannot be resumed over itself."""
        kept = MemorySessions()
        model = script(say("x"), say("y"))
        async with self.harness(plugins=[kept.plugin], model=model) as h:
            async with await create(h.ctx) as first:
                first.agent.send("a")
                await first.agent.when_idle()
            del kept.rows["b"][-3:]
            async with await resume(h.ctx) as second:
                events = second.agent.session.events
                ends = [e.view.reason for e in events if isinstance(e.view, TurnEnd)]
                assert ends == [Interrupted()]
                with pytest.raises(SessionExistsError):
                    await resume(h.ctx)
                second.agent.send("b")
                await second.agent.when_idle()
                assert end_of(second.agent) == Completed()

    async def test_cancelling_a_pending_resume_leaves_nothing(self) -> None:
        """L-188: the session can be resumed afterwards."""
        kept = SlowSessions()
        async with self.harness(plugins=[kept.plugin], model=script(say("x"))) as h:
            async with await create(h.ctx) as first:
                first.agent.send("a")
                await first.agent.when_idle()
            kept.asleep = True
            async with anyio.create_task_group() as group:
                group.start_soon(resume, h.ctx)
                await kept.asked.wait()
                group.cancel_scope.cancel()
            assert h.ctx[Agents].get("b") is None
            kept.asleep = False
            async with await resume(h.ctx) as second:
                assert second.agent.session.last_turn == 1

    @pytest.mark.parametrize("provider", [False, True])
    async def test_unload_of_an_owner_during_the_lookup_aborts_it(self, provider: bool) -> None:
        """L-189: of the caller or of the loop; nothing is published late."""
        kept = SlowSessions()
        async with self.harness(plugins=[kept.plugin]) as h:
            ctx = await owner(h)
            kept.asleep = True
            raised: list[Exception] = []

            async def attempt() -> None:
                try:
                    await resume(ctx)
                except AgentDisposedError as error:
                    raised.append(error)

            async with anyio.create_task_group() as group:
                group.start_soon(attempt)
                await kept.asked.wait()
                await (h.loop if provider else ctx.fiber).dispose()
            assert len(raised) == 1
            assert (h.ctx[Agents].get("b"), h.ctx[Sessions].get("b")) == (None, None)

    async def test_a_turn_in_progress_is_stored_to_its_end_when_its_owner_goes(self) -> None:
        """L-195, L-203: what the drain logged is there again."""
        kept = MemorySessions()
        async with self.harness(plugins=[kept.plugin], model=script(reply(pause("p")))) as h:
            handle = await create(h.ctx)
            handle.agent.send("a")
            await h.model.reached("p")
            await handle.dispose()
            async with await resume(h.ctx) as second:
                ended = end_of(second.agent)
                assert ended is not None
                assert ended == end_of(handle.agent)
                assert headers(h) == []
