import pytest

from terret_agents import (
    CLAIMED,
    DISCARDED,
    PRE_STEP,
    QUEUED,
    TURN_STOPPING,
    USER,
    AgentDisposedError,
    AgentOptions,
    Agents,
    DuplicateInputError,
    Enter,
    Reject,
    StepProposal,
    TurnStopping,
)
from terret_context import Next
from terret_llm import Message, PluginSource, UnknownBlock, UserSource, create_user_message
from terret_sessions import (
    EVENT,
    FLUSH,
    Blocked,
    LosslessJsonError,
    Session,
    SessionEvent,
    Sessions,
    TurnStart,
)
from terret_testing import Harness, call, fail, pause, reply, running_harness, say, script
from terret_tools import Tools, tool

SCRIPTED = AgentOptions(provider="scripted", model="scripted")


def turns(h: Harness) -> int:
    return sum(isinstance(event.view, TurnStart) for event in h.events)


def note(text: str) -> Message:
    return create_user_message(text, PluginSource("note"))


async def test_idle_inject_is_durable_and_opens_no_turn() -> None:
    """L-021, L-213: injected context waits; the next prompt takes it along, in front."""
    async with running_harness(model=script(say("x"))) as h:
        h.agent.inject("context")
        assert (h.agent.status, turns(h)) == ("idle", 0)
        assert h.events[-1].type == "agent/inbox/spliced"
        await h.send("hi")
        assert [m.text for m in h.requests[0].messages] == ["context", "hi"]


async def test_inject_keeps_an_empty_plugin_name() -> None:
    """L-022: the source is taken as given."""
    async with running_harness() as h:
        message = h.agent.inject("x", source=PluginSource(""))
        assert message.source == PluginSource("")


async def test_input_that_json_cannot_hold_changes_nothing() -> None:
    """L-023: refused before any event or list changes."""
    async with running_harness() as h:
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


async def test_inbox_events_carry_the_message_once_each() -> None:
    """L-024: queued, claimed and discarded."""
    async with running_harness(model=script(say("x"))) as h:
        seen: list[tuple[str, str]] = []
        h.ctx.on(QUEUED, lambda e: seen.append(("queued", e.message.text)))
        h.ctx.on(CLAIMED, lambda e: seen.append((f"claimed {e.turn}", e.message.text)))
        h.ctx.on(DISCARDED, lambda e: seen.append(("discarded", e.message.text)))
        await h.send("a")
        h.agent.inject("b")
        h.agent.cancel(USER)
        assert seen == [("queued", "a"), ("claimed 1", "a"), ("queued", "b"), ("discarded", "b")]


async def test_steering_while_idle_opens_a_turn_and_a_second_one_joins_it() -> None:
    """L-025: the second steer of the same tick is input of the next step of that turn."""
    async with running_harness(model=script(say("one"), say("two"))) as h:
        h.agent.steer("a")
        assert turns(h) == 1
        h.agent.steer("b")
        await h.agent.when_idle()
        h.assert_transcript("user: a", "assistant: one", "user: b", "assistant: two")
        assert turns(h) == 1


async def test_steering_during_a_run_forces_another_step() -> None:
    """L-026: it joins before the next request."""
    async with running_harness(model=script(reply(pause("p"), say("one")), say("two"))) as h:
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.steer("b")
        h.model.release("p")
        await h.agent.when_idle()
        h.assert_transcript("user: a", "assistant: one", "user: b", "assistant: two")
        assert turns(h) == 1


async def test_context_injected_by_a_tool_comes_after_the_results_of_its_batch() -> None:
    """L-027, L-028: deferral ends with the batch."""
    async with running_harness(
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
        h.assert_transcript(
            "user: go",
            "call: poke {}",
            "call: poke {}",
            "result: poked",
            "result: poked",
            "plugin note: note 0",
            "plugin note: note 1",
            "call: poke {}",
            "result: poked",
            "plugin note: note 2",
            "assistant: done",
        )


async def test_steering_from_turn_stopping_continues_the_turn() -> None:
    """L-029, L-070: the loop pattern; turn-stopping may steer repeatedly."""
    async with running_harness(model=script(say("1"), say("2"), say("3"))) as h:
        rounds = iter(["again", "once more"])

        def steer(event: TurnStopping) -> None:
            text = next(rounds, None)
            if text is not None:
                event.agent.steer(text)

        h.ctx.on(TURN_STOPPING, steer)
        assert await h.send("go") == "3"
        assert turns(h) == 1


async def test_waking_input_between_turn_end_and_idle_opens_the_next_turn() -> None:
    """L-030, L-213: during the flush, steering opens a turn, injected input does not."""
    async with running_harness(model=script(say("1"), say("2"))) as h:
        flushes: list[int] = []

        async def on_flush(session: Session) -> None:
            flushes.append(1)
            if len(flushes) == 1:
                h.agent.steer("late")
            else:
                h.agent.inject("later")

        h.ctx.on(FLUSH, on_flush)
        assert await h.send("go") == "2"
        assert turns(h) == 2
        assert [m.text for m in h.agent.inbox.next_step] == ["later"]


async def test_steering_pending_when_a_turn_fails_waits_for_a_wake() -> None:
    """L-031, L-227: after an error the driver parks."""
    async with running_harness(model=script(reply(pause("p"), fail("SERVER")), say("ok"))) as h:
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.steer("steering")
        h.agent.followup("next")
        h.model.release("p")
        await h.agent.when_idle()
        assert turns(h) == 1
        assert [m.text for m in h.agent.inbox.next_step] == ["steering"]
        h.model.add(say("ok"))
        await h.send("wake")
        assert [m.text for m in h.requests[1].messages] == ["a", "steering", "next"]
        assert turns(h) == 3


async def test_context_staged_after_pre_step_began_is_kept_for_a_later_claim() -> None:
    """L-032, L-048: it does not join the batch on the table, but its turn."""
    async with running_harness(model=script(say("1"), say("2"))) as h:

        async def stage(proposal: StepProposal, call_next: Next[Enter | Reject]) -> Enter | Reject:
            decision = await call_next()
            if proposal.step == 1:
                h.agent.inject("staged")
            return decision

        h.ctx.on(PRE_STEP, stage)
        await h.send("go")
        h.assert_transcript("user: go", "assistant: 1", "user: staged", "assistant: 2")
        assert turns(h) == 1


async def test_a_pending_inject_survives_a_fresh_instance_without_a_turn() -> None:
    """L-034: it is restored from the log and waits for a wake."""
    async with running_harness(model=script(say("x"))) as h:
        h.agent.inject("context")
        log = tuple(h.events)
        handle = await h.ctx[Agents].create(session_id="again", seed=log, agent_options=SCRIPTED)
        async with handle:
            agent = handle.agent
            assert [m.text for m in agent.inbox.next_step] == ["context"]
            assert agent.status == "idle"
            agent.send("hi")
            await agent.when_idle()
            assert [m.text for m in h.requests[0].messages] == ["context", "hi"]


async def test_accepted_input_is_one_record_in_event_inbox_and_log() -> None:
    """L-038: later changes by the caller are invisible."""
    async with running_harness(model=script(say("x"))) as h:
        data: dict[str, object] = {"type": "chart", "points": [1]}
        queued: list[Message] = []
        h.ctx.on(QUEUED, lambda e: queued.append(e.message))
        sent = h.agent.inject(Message("m", "user", (UnknownBlock("chart", data),), UserSource()))
        data["points"] = "changed"
        assert queued == [sent]
        assert h.agent.inbox.next_step[0] is sent
        [block] = sent.content
        assert block.to_wire() == {"type": "chart", "points": [1]}


async def test_a_pending_id_is_refused() -> None:
    """L-023: raises before any event or list changed."""
    async with running_harness() as h:
        message = note("once")
        h.agent.inject(message)
        before = len(h.events)
        with pytest.raises(DuplicateInputError):
            h.agent.inject(message)
        assert len(h.events) == before


async def test_a_vetoed_splice_leaves_the_inbox_as_it_was() -> None:
    """L-033: a failing append changes nothing."""
    async with running_harness() as h:

        def veto(session: Session, event: SessionEvent) -> None:
            if event.type == "agent/inbox/spliced":
                raise ValueError("no more input")

        h.ctx[Sessions].validator(veto)
        with pytest.raises(ValueError, match="no more input"):
            h.agent.send("hi")
        assert (h.agent.inbox.has_pending, h.agent.status, len(h.events)) == (False, "idle", 0)


async def test_a_log_observer_sees_the_lists_before_the_change() -> None:
    """A-003: appended, then applied, then announced."""
    async with running_harness() as h:
        at_append: list[int] = []
        at_queue: list[int] = []
        h.ctx.on(EVENT, lambda session, event: at_append.append(len(h.agent.inbox.next_step)))
        h.ctx.on(QUEUED, lambda e: at_queue.append(len(h.agent.inbox.next_step)))
        h.agent.inject("x")
        assert (at_append, at_queue) == ([0], [1])


async def test_all_input_is_refused_once_the_agent_is_disposed() -> None:
    """L-039: nothing is appended."""
    async with running_harness() as h:
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


async def test_non_waking_messages_of_a_rejected_batch_go_back_to_the_head() -> None:
    """L-221, L-049: waking ones are consumed; what was staged meanwhile stays behind them."""
    async with running_harness(model=script(say("x"))) as h:
        rejecting = [True]

        async def gate(proposal: StepProposal, call_next: Next[Enter | Reject]) -> Enter | Reject:
            if rejecting.pop() if rejecting else False:
                h.agent.inject("staged")
                return Reject("not now")
            return await call_next()

        h.ctx.on(PRE_STEP, gate)
        h.agent.inject("first")
        h.agent.inject("second")
        await h.send("prompt")
        assert h.turn_end == Blocked("not now")
        assert [m.text for m in h.agent.inbox.next_step] == ["first", "second", "staged"]
        assert turns(h) == 1
        await h.send("next")
        texts = [m.text for m in h.requests[0].messages]
        assert texts == ["first", "second", "staged", "next"]
