"""Input for a turn that is running."""

from terret_agents import PRE_STEP, TURN_STOPPING, Enter, Reject, StepProposal, TurnStopping
from terret_context import Next
from terret_sessions import FLUSH, Blocked, Session, TurnStart
from terret_testing import fail, pause, reply, say, script

from ._chapter import Chapter
from ._kit import count


class Steering(Chapter):
    """Input for a turn that is running."""

    async def test_steering_while_idle_opens_a_turn_and_a_second_one_joins_it(self) -> None:
        """L-025: the second steer of the same tick is input of the next step of that turn."""
        async with self.harness(model=script(say("one"), say("two"))) as h:
            h.agent.steer("a")
            assert count(h, TurnStart) == 1
            h.agent.steer("b")
            await h.agent.when_idle()
            self.assert_lines(h, "user: a", "assistant: one", "user: b", "assistant: two")
            assert count(h, TurnStart) == 1

    async def test_steering_during_a_run_forces_another_step(self) -> None:
        """L-026: it joins before the next request."""
        async with self.harness(model=script(reply(pause("p"), say("one")), say("two"))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.steer("b")
            h.model.release("p")
            await h.agent.when_idle()
            self.assert_lines(h, "user: a", "assistant: one", "user: b", "assistant: two")
            assert count(h, TurnStart) == 1

    async def test_steering_from_turn_stopping_continues_the_turn(self) -> None:
        """L-029, L-070: the loop pattern; turn-stopping may steer repeatedly."""
        async with self.harness(model=script(say("1"), say("2"), say("3"))) as h:
            rounds = iter(["again", "once more"])

            def steer(event: TurnStopping) -> None:
                text = next(rounds, None)
                if text is not None:
                    event.agent.steer(text)

            h.ctx.on(TURN_STOPPING, steer)
            assert await h.send("go") == "3"
            assert count(h, TurnStart) == 1

    async def test_waking_input_between_turn_end_and_idle_opens_the_next_turn(self) -> None:
        """L-030, L-213: during the flush, steering opens a turn, injected input does not."""
        async with self.harness(model=script(say("1"), say("2"))) as h:
            flushes: list[int] = []

            async def on_flush(session: Session) -> None:
                flushes.append(1)
                if len(flushes) == 1:
                    h.agent.steer("late")
                else:
                    h.agent.inject("later")

            h.ctx.on(FLUSH, on_flush)
            assert await h.send("go") == "2"
            assert count(h, TurnStart) == 2
            assert [m.text for m in h.agent.inbox.next_step] == ["later"]

    async def test_steering_pending_when_a_turn_fails_waits_for_a_wake(self) -> None:
        """L-031, L-227: after an error the driver parks."""
        async with self.harness(model=script(reply(pause("p"), fail("SERVER")), say("ok"))) as h:
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.steer("steering")
            h.agent.followup("next")
            h.model.release("p")
            await h.agent.when_idle()
            assert count(h, TurnStart) == 1
            assert [m.text for m in h.agent.inbox.next_step] == ["steering"]
            h.model.add(say("ok"))
            await h.send("wake")
            assert [m.text for m in h.requests[1].messages] == ["a", "steering", "next"]
            assert count(h, TurnStart) == 3

    async def test_context_staged_after_pre_step_began_is_kept_for_a_later_claim(self) -> None:
        """L-032, L-048: it does not join the batch on the table, but its turn."""
        async with self.harness(model=script(say("1"), say("2"))) as h:

            async def stage(
                proposal: StepProposal, call_next: Next[Enter | Reject]
            ) -> Enter | Reject:
                decision = await call_next()
                if proposal.step == 1:
                    h.agent.inject("staged")
                return decision

            h.ctx.on(PRE_STEP, stage)
            await h.send("go")
            self.assert_lines(h, "user: go", "assistant: 1", "user: staged", "assistant: 2")
            assert count(h, TurnStart) == 1

    async def test_non_waking_messages_of_a_rejected_batch_go_back_to_the_head(self) -> None:
        """L-221, L-049: waking ones are consumed; what was staged meanwhile stays behind them."""
        async with self.harness(model=script(say("x"))) as h:
            rejecting = [True]

            async def gate(
                proposal: StepProposal, call_next: Next[Enter | Reject]
            ) -> Enter | Reject:
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
            assert count(h, TurnStart) == 1
            await h.send("next")
            texts = [m.text for m in h.requests[0].messages]
            assert texts == ["first", "second", "staged", "next"]
