"""Going on and stopping: the three questions after a step, and output ceilings."""

import pytest

from terret_agents import (
    TURN_CONTINUATION,
    TURN_STOP,
    TURN_STOPPING,
    Agent,
    Agents,
    Continuation,
    Continue,
    Stop,
    StopQuestion,
    TurnStop,
    TurnStopping,
)
from terret_context import Next
from terret_llm import Finish
from terret_sessions import (
    FLUSH,
    AssistantMessage,
    Completed,
    Denied,
    Errored,
    MaxSteps,
    MaxTokens,
    Session,
    StepStart,
    ToolCall,
    TurnEnd,
    TurnStart,
)
from terret_testing import SCRIPTED, call, pause, reply, say, script
from terret_tools import ToolRun, Tools, tool

from ._chapter import Chapter
from ._kit import count, note, ping

Verdict = Continue | Stop


@tool
async def finish(run: ToolRun) -> str:
    """Finish."""
    run.conclude_turn()
    return "finished"


CUT = Finish.max_tokens()


class Stopping(Chapter):
    """Going on and stopping: the three questions after a step, and output ceilings."""

    async def test_turn_continuation_can_force_one_more_request(self) -> None:
        """L-063, L-212: a Continue without reason makes exactly one more, with an empty batch."""
        async with self.harness(model=script(say("one"), say("two"))) as h:
            asked: list[Continuation] = []

            async def go_on(
                question: Continuation, call_next: Next[Continue | Stop]
            ) -> Continue | Stop:
                asked.append(question)
                return Continue() if question.step == 1 else await call_next()

            h.ctx.on(TURN_CONTINUATION, go_on)
            await h.send("hi")
            self.assert_lines(h, "user: hi", "assistant: one", "assistant: two")
            assert [type(question.default) for question in asked] == [Stop, Stop]

    async def test_turn_continuation_can_carry_a_reason_and_stop_after_results(self) -> None:
        """L-063: the reason is next-step input; Stop leaves the results without a request."""
        async with self.harness(model=script(say("one"), call("ping"))) as h:
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
            self.assert_lines(
                h,
                "user: hi",
                "assistant: one",
                "plugin note: the plan is not done",
                "result: pong",
            )
            assert h.turn_end == Completed()

    async def test_pending_steering_overrides_an_ordinary_stop(self) -> None:
        """L-029."""
        async with self.harness(model=script(reply(pause("p"), say("one")), say("two"))) as h:
            h.ctx.on(TURN_CONTINUATION, lambda question, call_next: Stop())
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.steer("b")
            h.model.release("p")
            await h.agent.when_idle()
            self.assert_lines(h, "user: a", "assistant: one", "user: b", "assistant: two")

    async def test_turn_stop_ends_the_turn_and_discards_next_step_input_only(self) -> None:
        """L-064, L-065, L-210, L-211: also input that comes during the flush; prompts survive."""
        async with self.harness(model=script(call("ping"), say("next"))) as h:
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
            self.assert_lines(h, "user: go", "result: pong", "user: kept", "assistant: next")
            assert not h.agent.inbox.has_pending

    @pytest.mark.parametrize(
        ("finish", "reason", "expected"),
        [
            (None, None, Completed()),
            (Finish.max_tokens(), None, MaxTokens()),
            (Finish.max_tokens(), Denied(("rm",)), Denied(("rm",))),
        ],
    )
    async def test_a_turn_stop_without_reason_keeps_the_ordinary_one(
        self, finish: Finish | None, reason: Denied | None, expected: object
    ) -> None:
        """L-210."""
        async with self.harness(model=script(reply(say("x"), finish=finish))) as h:
            h.ctx.on(TURN_STOP, lambda question: TurnStop(reason))
            await h.send("go")
            assert h.turn_end == expected

    async def test_turn_stop_is_scope_filtered_and_goes_with_its_owner(self) -> None:
        """L-066: a scoped policy concerns its agent; undone, it is not asked."""
        async with self.harness(model=script(say("x"), say("y"))) as h:
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
    async def test_a_throwing_listener_at_the_end_of_a_step_fails_the_turn(
        self, event: object
    ) -> None:
        """L-067, L-066: closed with an error; the agent goes on."""
        async with self.harness(model=script(say("x"), say("y"))) as h:

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

    async def test_a_tool_may_conclude_the_turn_and_all_calls_of_its_step_still_run(self) -> None:
        """L-068: no request follows although one would be owed."""
        model = script(reply(call("ping"), call("finish"), call("ping")))
        async with self.harness(model=model) as h:
            h.ctx[Tools].register(ping)
            h.ctx[Tools].register(finish)
            await h.send("go")
            assert self.lines(h)[-3:] == ("result: pong", "result: finished", "result: pong")
            assert (h.turn_end, count(h, StepStart)) == (Completed(), 1)

    async def test_steering_that_arrived_during_a_concluding_step_still_runs(self) -> None:
        """L-069."""
        async with self.harness(model=script(call("finish"), say("sure"))) as h:
            h.ctx[Tools].register(finish)

            def steer(question: StopQuestion) -> None:
                if question.step == 1:
                    h.agent.steer("one more thing")

            h.ctx.on(TURN_STOP, steer)
            await h.send("go")
            assert self.lines(h)[-2:] == ("user: one more thing", "assistant: sure")
            assert count(h, TurnStart) == 1

    async def test_the_three_questions_are_asked_in_order_and_stopping_not_after_a_stop(
        self,
    ) -> None:
        """L-313."""
        async with self.harness(model=script(call("ping"), say("x"), say("y"))) as h:
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

    async def test_a_ceiling_is_the_reason_of_its_turn_and_of_no_other(self) -> None:
        """L-071, L-073, L-227: the next queued prompt runs and completes."""
        async with self.harness(model=script(reply(say("x"), finish=CUT), say("y"))) as h:
            h.agent.send("a")
            h.agent.send("b")
            await h.agent.when_idle()
            reasons = [e.view.reason for e in h.events if isinstance(e.view, TurnEnd)]
            assert reasons == [MaxTokens(), Completed()]

    async def test_an_earlier_ceiling_survives_a_later_step(self) -> None:
        """L-072, L-076: also one with tool calls, whose results are fed back."""
        model = script(reply(say("x"), finish=CUT), call("ping"), say("done"))
        async with self.harness(model=model) as h:
            h.ctx[Tools].register(ping)
            texts = iter(["go on"])

            def steer(event: TurnStopping) -> None:
                if text := next(texts, None):
                    event.agent.steer(text)

            h.ctx.on(TURN_STOPPING, steer)
            assert await h.send("a") == "done"
            assert h.turn_end == MaxTokens()

    async def test_truncated_tool_calls_are_never_run_and_safe_content_is_kept(self) -> None:
        """L-074, L-075."""
        async with self.harness(model=script(reply(say("so:"), call("ping"), finish=CUT))) as h:
            h.ctx[Tools].register(ping)
            await h.send("a")
            assert not any(isinstance(e.view, ToolCall) for e in h.events)
            answer = h.session.derive_messages()[-1]
            assert (answer.text[:3], answer.tool_calls) == ("so:", ())
            assert h.turn_end == MaxTokens()

    async def test_an_empty_truncated_step_is_logged(self) -> None:
        """L-014: with or without usage."""
        model = script(reply(finish=CUT), reply(finish=CUT, usage=None))
        async with self.harness(model=model) as h:
            await h.send("a")
            await h.send("b")
            answers = [e.view for e in h.events if isinstance(e.view, AssistantMessage)]
            assert [answer.message.content for answer in answers] == [(), ()]
            assert [answer.usage is None for answer in answers] == [False, True]
