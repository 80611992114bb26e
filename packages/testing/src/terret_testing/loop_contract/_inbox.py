"""Input that waits: order, records, refusals."""

import pytest

from terret_agents import (
    CLAIMED,
    DISCARDED,
    QUEUED,
    USER,
    AgentDisposedError,
    Agents,
    DuplicateInputError,
)
from terret_llm import Message, PluginSource, UnknownBlock, UserSource
from terret_sessions import EVENT, LosslessJsonError, Session, SessionEvent, Sessions, TurnStart
from terret_testing import SCRIPTED, call, reply, say, script
from terret_tools import Tools, tool

from ._chapter import Chapter
from ._kit import count, note


class InboxRules(Chapter):
    """Input that waits: order, records, refusals."""

    async def test_idle_inject_is_durable_and_opens_no_turn(self) -> None:
        """L-021, L-213: injected context waits; the next prompt takes it along, in front."""
        async with self.harness(model=script(say("x"))) as h:
            h.agent.inject("context")
            assert (h.agent.status, count(h, TurnStart)) == ("idle", 0)
            assert h.events[-1].type == "agent/inbox/spliced"
            await h.send("hi")
            assert [m.text for m in h.requests[0].messages] == ["context", "hi"]

    async def test_inject_keeps_an_empty_plugin_name(self) -> None:
        """L-022: the source is taken as given."""
        async with self.harness() as h:
            message = h.agent.inject("x", source=PluginSource(""))
            assert message.source == PluginSource("")

    async def test_input_that_json_cannot_hold_changes_nothing(self) -> None:
        """L-023: refused before any event or list changes."""
        async with self.harness() as h:
            before = len(h.events)
            bad = Message(
                "m", "user", (UnknownBlock("x", {"type": "x", "n": float("nan")}),), UserSource()
            )
            with pytest.raises(LosslessJsonError):
                h.agent.send(bad)
            with pytest.raises(ValueError, match="surrogate"):
                h.agent.send("\ud800")
            assert len(h.events) == before
            assert (h.agent.status, h.agent.inbox.has_pending) == ("idle", False)

    async def test_inbox_events_carry_the_message_once_each(self) -> None:
        """L-024: queued, claimed and discarded."""
        async with self.harness(model=script(say("x"))) as h:
            seen: list[tuple[str, str]] = []
            h.ctx.on(QUEUED, lambda e: seen.append(("queued", e.message.text)))
            h.ctx.on(CLAIMED, lambda e: seen.append((f"claimed {e.turn}", e.message.text)))
            h.ctx.on(DISCARDED, lambda e: seen.append(("discarded", e.message.text)))
            await h.send("a")
            h.agent.inject("b")
            h.agent.cancel(USER)
            assert seen == [
                ("queued", "a"),
                ("claimed 1", "a"),
                ("queued", "b"),
                ("discarded", "b"),
            ]

    async def test_context_injected_by_a_tool_comes_after_the_results_of_its_batch(self) -> None:
        """L-027, L-028: deferral ends with the batch."""
        async with self.harness(
            model=script(reply(call("poke"), call("poke")), call("poke"), say("done"))
        ) as h:
            count = iter(range(10))

            @tool
            async def poke() -> str:
                """Poke."""
                h.agent.inject(note(f"note {next(count)}"))
                return "poked"

            h.ctx[Tools].register(poke)
            await h.send("go")
            self.assert_lines(
                h,
                "user: go",
                "result: poked",
                "result: poked",
                "plugin note: note 0",
                "plugin note: note 1",
                "result: poked",
                "plugin note: note 2",
                "assistant: done",
            )

    async def test_a_pending_inject_survives_a_fresh_instance_without_a_turn(self) -> None:
        """L-034: it is restored from the log and waits for a wake."""
        async with self.harness(model=script(say("x"))) as h:
            h.agent.inject("context")
            log = tuple(h.events)
            handle = await h.ctx[Agents].create(
                session_id="again", seed=log, agent_options=SCRIPTED
            )
            async with handle:
                agent = handle.agent
                assert [m.text for m in agent.inbox.next_step] == ["context"]
                assert agent.status == "idle"
                agent.send("hi")
                await agent.when_idle()
                assert [m.text for m in h.requests[0].messages] == ["context", "hi"]

    async def test_accepted_input_is_one_record_in_event_inbox_and_log(self) -> None:
        """L-038: later changes by the caller are invisible."""
        async with self.harness(model=script(say("x"))) as h:
            data: dict[str, object] = {"type": "chart", "points": [1]}
            queued: list[Message] = []
            h.ctx.on(QUEUED, lambda e: queued.append(e.message))
            sent = h.agent.inject(
                Message("m", "user", (UnknownBlock("chart", data),), UserSource())
            )
            data["points"] = "changed"
            assert queued == [sent]
            assert h.agent.inbox.next_step[0] is sent
            [block] = sent.content
            assert block.to_wire() == {"type": "chart", "points": [1]}

    async def test_a_pending_id_is_refused(self) -> None:
        """L-023: raises before any event or list changed."""
        async with self.harness() as h:
            message = note("once")
            h.agent.inject(message)
            before = len(h.events)
            with pytest.raises(DuplicateInputError):
                h.agent.inject(message)
            assert len(h.events) == before

    async def test_a_vetoed_splice_leaves_the_inbox_as_it_was(self) -> None:
        """L-033: a failing append changes nothing."""
        async with self.harness() as h:

            def veto(session: Session, event: SessionEvent) -> None:
                if event.type == "agent/inbox/spliced":
                    raise ValueError("no more input")

            h.ctx[Sessions].validator(veto)
            with pytest.raises(ValueError, match="no more input"):
                h.agent.send("hi")
            assert (h.agent.inbox.has_pending, h.agent.status, len(h.events)) == (False, "idle", 0)

    async def test_a_log_observer_sees_the_lists_before_the_change(self) -> None:
        """A-003: appended, then applied, then announced."""
        async with self.harness() as h:
            at_append: list[int] = []
            at_queue: list[int] = []
            h.ctx.on(EVENT, lambda session, event: at_append.append(len(h.agent.inbox.next_step)))
            h.ctx.on(QUEUED, lambda e: at_queue.append(len(h.agent.inbox.next_step)))
            h.agent.inject("x")
            assert (at_append, at_queue) == ([0], [1])

    async def test_all_input_is_refused_once_the_agent_is_disposed(self) -> None:
        """L-039: nothing is appended."""
        async with self.harness() as h:
            handle = await h.ctx[Agents].create(session_id="other", agent_options=SCRIPTED)
            agent = handle.agent
            await handle.dispose()
            before = len(agent.session.events)

            async def job() -> None:
                raise AssertionError("must not run")

            for send in (agent.send, agent.followup, agent.steer, agent.inject):
                with pytest.raises(AgentDisposedError):
                    send("x")
            with pytest.raises(AgentDisposedError):
                await agent.run_maintenance(job)
            assert len(agent.session.events) == before
