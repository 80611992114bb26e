import pytest

from terret_agents import (
    SESSION_PREFIX,
    SESSION_START,
    TURN_CONTINUATION,
    TURN_STOP,
    TURN_STOPPING,
    Agent,
    AgentOptions,
    Agents,
    Continuation,
    Continue,
    PrefixRequest,
    SessionStart,
    Stop,
    StopQuestion,
    TurnStop,
    TurnStopping,
)
from terret_context import Next
from terret_llm import Finish, Message, PluginSource, create_user_message
from terret_sessions import (
    FLUSH,
    Completed,
    Denied,
    Errored,
    InboxSpliced,
    MaxSteps,
    MaxTokens,
    Session,
    StepStart,
    TurnEnd,
    TurnStart,
)
from terret_testing import Harness, call, pause, reply, running_harness, say, script
from terret_tools import ToolRun, Tools, tool

SCRIPTED = AgentOptions(provider="scripted", model="scripted")

Verdict = Continue | Stop


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


@tool
async def finish(run: ToolRun) -> str:
    """Finish."""
    run.conclude_turn()
    return "finished"


def note(text: str) -> Message:
    return create_user_message(text, PluginSource("note"))


def count(h: Harness, payload: type) -> int:
    return sum(isinstance(event.view, payload) for event in h.events)


async def test_session_start_is_announced_once_and_may_inject() -> None:
    """L-056, L-057: the first request sees the context; an exception aborts nothing."""
    async with running_harness(model=script(say("x"))) as h:
        seen: list[tuple[str, str]] = []

        def start(event: SessionStart) -> None:
            seen.append((event.agent.id, event.source))
            event.agent.inject(note("welcome"))
            raise ValueError("contained")

        h.ctx.on(SESSION_START, start)
        handle = await h.ctx[Agents].create(session_id="b", agent_options=SCRIPTED)
        async with handle:
            handle.agent.send("hi")
            await handle.agent.when_idle()
        assert seen == [("b", "startup")]
        assert [m.text for m in h.requests[0].messages] == ["welcome", "hi"]


async def test_the_session_prefix_is_composed_once_and_fronts_every_request() -> None:
    """L-058, L-059, L-060: registration order; in the header, never in history."""
    async with running_harness(model=script(call("ping"), say("x"), say("y"))) as h:
        h.ctx[Tools].register(ping)
        inner: list[object] = []

        def contribute(text: str) -> None:
            message = note(text)

            async def prefix(request: PrefixRequest, call_next: Next[object]) -> list[Message]:
                rest = await call_next()
                inner.append(rest)
                return [message, *rest]  # type: ignore[misc]

            h.ctx.on("agent/session-prefix", prefix)

        contribute("one")
        contribute("two")
        await h.send("a")
        await h.send("b")
        assert len(h.requests) == 3
        for request in h.requests:
            assert [m.text for m in request.messages[:2]] == ["one", "two"]
        assert len(inner) == 2
        assert inner[0] == ()
        header = h.session.request_header()
        assert header is not None
        assert [m.text for m in header.message_prefix] == ["one", "two"]
        assert all(m.source.kind != "plugin" for m in h.session.derive_messages())


async def test_prefix_listeners_are_heard_by_their_scope_only() -> None:
    """L-061, L-193: a scoped listener shapes its own agent."""
    async with running_harness(model=script(say("x"), say("y"))) as h:
        other = await h.ctx[Agents].create(session_id="other", agent_options=SCRIPTED)
        other.agent.ctx.on(SESSION_PREFIX, lambda request, call_next: [note("mine")])
        await h.send("a")
        other.agent.send("b")
        await other.agent.when_idle()
        assert [len(request.messages) for request in h.requests] == [1, 2]
        await other.dispose()


async def test_turn_continuation_can_force_one_more_request() -> None:
    """L-063, L-212: a Continue without reason makes exactly one more, with an empty batch."""
    async with running_harness(model=script(say("one"), say("two"))) as h:
        asked: list[Continuation] = []

        async def go_on(
            question: Continuation, call_next: Next[Continue | Stop]
        ) -> Continue | Stop:
            asked.append(question)
            return Continue() if question.step == 1 else await call_next()

        h.ctx.on(TURN_CONTINUATION, go_on)
        await h.send("hi")
        h.assert_transcript("user: hi", "assistant: one", "assistant: two")
        assert [type(question.default) for question in asked] == [Stop, Stop]


async def test_turn_continuation_can_carry_a_reason_and_stop_after_results() -> None:
    """L-063: the reason is next-step input; Stop leaves the results without a request."""
    async with running_harness(model=script(say("one"), call("ping"))) as h:
        h.ctx[Tools].register(ping)

        async def decide(
            question: Continuation, call_next: Next[Continue | Stop]
        ) -> Continue | Stop:
            if question.step == 1:
                return Continue(note("the plan is not done"))
            assert isinstance(question.default, Continue)
            return Stop()

        h.ctx.on(TURN_CONTINUATION, decide)
        await h.send("hi")
        h.assert_transcript(
            "user: hi",
            "assistant: one",
            "plugin note: the plan is not done",
            "call: ping {}",
            "result: pong",
        )
        assert h.turn_end == Completed()


async def test_pending_steering_overrides_an_ordinary_stop() -> None:
    """L-029."""
    async with running_harness(model=script(reply(pause("p"), say("one")), say("two"))) as h:
        h.ctx.on(TURN_CONTINUATION, lambda question, call_next: Stop())
        h.agent.send("a")
        await h.model.reached("p")
        h.agent.steer("b")
        h.model.release("p")
        await h.agent.when_idle()
        h.assert_transcript("user: a", "assistant: one", "user: b", "assistant: two")


async def test_turn_stop_ends_the_turn_and_discards_next_step_input_only() -> None:
    """L-064, L-065, L-210, L-211: also input that comes during the flush; prompts survive."""
    async with running_harness(model=script(call("ping"), say("next"))) as h:
        h.ctx[Tools].register(ping)
        questions: list[StopQuestion] = []

        def stop(question: StopQuestion) -> TurnStop | None:
            questions.append(question)
            if question.turn == 1:
                h.agent.inject("lost")
                return TurnStop(MaxSteps(1))
            return None

        async def flush(session: Session) -> None:
            if count(h, TurnStart) == 1:
                h.agent.steer("lost too")
                h.agent.followup("kept")

        h.ctx.on(TURN_STOP, stop)
        h.ctx.on(FLUSH, flush)
        await h.send("go")
        assert [question.continues for question in questions] == [True, False]
        assert MaxSteps(1) in [getattr(event.view, "reason", None) for event in h.events]
        h.assert_transcript(
            "user: go", "call: ping {}", "result: pong", "user: kept", "assistant: next"
        )
        assert not h.agent.inbox.has_pending
        end = next(event.seq for event in h.events if isinstance(event.view, TurnEnd))
        discard = h.events[end - 1].view
        assert isinstance(discard, InboxSpliced)
        assert (discard.target, discard.outcome) == ("next-step", "canceled")


@pytest.mark.parametrize(
    ("finish", "reason", "expected"),
    [
        (None, None, Completed()),
        (Finish.max_tokens(), None, MaxTokens()),
        (Finish.max_tokens(), Denied(("rm",)), Denied(("rm",))),
    ],
)
async def test_a_turn_stop_without_reason_keeps_the_ordinary_one(
    finish: Finish | None, reason: Denied | None, expected: object
) -> None:
    """L-210."""
    async with running_harness(model=script(reply(say("x"), finish=finish))) as h:
        h.ctx.on(TURN_STOP, lambda question: TurnStop(reason))
        await h.send("go")
        assert h.turn_end == expected


async def test_turn_stop_is_scope_filtered_and_goes_with_its_owner() -> None:
    """L-066: a scoped policy concerns its agent; undone, it is not asked."""
    async with running_harness(model=script(say("x"), say("y"))) as h:
        asked: list[Agent] = []
        other = await h.ctx[Agents].create(session_id="other", agent_options=SCRIPTED)
        listening = h.agent.ctx.on(TURN_STOP, lambda question: asked.append(question.agent))
        other.agent.send("a")
        await other.agent.when_idle()
        listening.close()
        await h.send("b")
        assert asked == []
        await other.dispose()


@pytest.mark.parametrize("event", [TURN_CONTINUATION, TURN_STOP, TURN_STOPPING])
async def test_a_throwing_listener_at_the_end_of_a_step_fails_the_turn(event: object) -> None:
    """L-067, L-066: closed with an error; the agent goes on."""
    async with running_harness(model=script(say("x"), say("y"))) as h:

        def fail(*payload: object) -> None:
            raise ValueError("no verdict")

        name = str(getattr(event, "name", ""))
        waterfall = event is TURN_CONTINUATION
        listening = h.ctx.on(name, (lambda a, b: fail()) if waterfall else fail)
        await h.send("a")
        assert isinstance(h.turn_end, Errored)
        assert h.turn_end.step == 1
        listening.close()
        assert await h.send("b") == "y"


async def test_a_tool_may_conclude_the_turn_and_all_calls_of_its_step_still_run() -> None:
    """L-068: no request follows although one would be owed."""
    model = script(reply(call("ping"), call("finish"), call("ping")))
    async with running_harness(model=model) as h:
        h.ctx[Tools].register(ping)
        h.ctx[Tools].register(finish)
        await h.send("go")
        assert h.transcript[-3:] == ("result: pong", "result: finished", "result: pong")
        assert (h.turn_end, count(h, StepStart)) == (Completed(), 1)


async def test_steering_that_arrived_during_a_concluding_step_still_runs() -> None:
    """L-069."""
    async with running_harness(model=script(call("finish"), say("sure"))) as h:
        h.ctx[Tools].register(finish)

        def steer(question: StopQuestion) -> None:
            if question.step == 1:
                h.agent.steer("one more thing")

        h.ctx.on(TURN_STOP, steer)
        await h.send("go")
        assert h.transcript[-2:] == ("user: one more thing", "assistant: sure")
        assert count(h, TurnStart) == 1


async def test_the_three_questions_are_asked_in_order_and_stopping_not_after_a_stop() -> None:
    """L-313."""
    async with running_harness(model=script(call("ping"), say("x"), say("y"))) as h:
        h.ctx[Tools].register(ping)
        asked: list[str] = []
        stopping = [False]

        async def continuation(question: Continuation, call_next: Next[Verdict]) -> Verdict:
            asked.append(f"continuation {question.step}")
            return await call_next()

        def stop(question: StopQuestion) -> TurnStop | None:
            asked.append(f"stop {question.step}")
            return TurnStop() if stopping[0] else None

        def at_end(event: TurnStopping) -> None:
            asked.append("stopping")

        h.ctx.on(TURN_CONTINUATION, continuation)
        h.ctx.on(TURN_STOP, stop)
        h.ctx.on(TURN_STOPPING, at_end)
        await h.send("a")
        assert asked == ["continuation 1", "stop 1", "continuation 2", "stop 2", "stopping"]
        asked.clear()
        stopping[0] = True
        await h.send("b")
        assert asked == ["continuation 1", "stop 1"]
