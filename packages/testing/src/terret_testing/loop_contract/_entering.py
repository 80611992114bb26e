"""What enters a step: `agent/pre-step` and `agent/prompt-submit`."""

from terret_agents import (
    ERROR,
    PRE_STEP,
    PROMPT_SUBMIT,
    Allow,
    Block,
    Enter,
    PromptSubmission,
    Reject,
    StepProposal,
)
from terret_context import Next
from terret_llm import Message, PluginSource, create_user_message
from terret_sessions import Blocked, Completed, Errored, PromptBlocked, StepStart
from terret_testing import call, pause, reply, say, script
from terret_tools import Tools

from ._chapter import Chapter
from ._kit import count, ping

Decision = Enter | Reject


def refuse(submission: PromptSubmission, call_next: Next[Allow | Block]) -> Block:
    return Block("rude")


class Entering(Chapter):
    """What enters a step: `agent/pre-step` and `agent/prompt-submit`."""

    async def test_coordinates_and_batches_are_right_for_first_and_continuation_steps(self) -> None:
        """L-040, L-041, L-042, L-051: once per proposed step; tuple with the very messages."""
        async with self.harness(model=script(call("ping"), say("ok"))) as h:
            h.ctx[Tools].register(ping)
            seen: list[StepProposal] = []
            logged: list[str] = []

            async def look(proposal: StepProposal, call_next: Next[Decision]) -> Decision:
                seen.append(proposal)
                logged.append(h.events[-1].type)
                return await call_next()

            h.ctx.on(PRE_STEP, look)
            sent = h.agent.send("hi")
            await h.agent.when_idle()
            assert [(p.turn, p.step) for p in seen] == [(1, 1), (1, 2)]
            assert seen[0].messages[0] is sent
            assert seen[1].messages == ()
            assert logged == ["agent/inbox/spliced", "step/end"]
            assert h.session.derive_messages()[0] is sent

    async def test_enter_may_rewrite_and_add_messages(self) -> None:
        """L-043, L-044: what is entered is what is logged."""
        async with self.harness(model=script(say("ok"))) as h:

            async def rewrite(proposal: StepProposal, call_next: Next[Decision]) -> Decision:
                [prompt] = proposal.messages
                polite = Message(
                    prompt.id, prompt.role, create_user_message("please").content, prompt.source
                )
                return Enter([polite, create_user_message("quickly", PluginSource("pace"))])

            h.ctx.on(PRE_STEP, rewrite)
            await h.send("do it")
            self.assert_lines(h, "user: please", "plugin pace: quickly", "assistant: ok")

    async def test_an_emptied_batch_opens_no_further_step_of_a_turn_that_owes_nothing(self) -> None:
        """L-045: the turn completes."""
        async with self.harness(model=script(reply(pause("p"), say("one")))) as h:

            async def drop(proposal: StepProposal, call_next: Next[Decision]) -> Decision:
                return Enter([]) if proposal.step == 2 else await call_next()

            h.ctx.on(PRE_STEP, drop)
            h.agent.send("a")
            await h.model.reached("p")
            h.agent.steer("b")
            h.model.release("p")
            await h.agent.when_idle()
            assert (count(h, StepStart), h.turn_end) == (1, Completed())

    async def test_reject_ends_the_turn_blocked_without_step_or_request(self) -> None:
        """L-046: with its reason; queued neighbours wait for the next wake."""
        async with self.harness(model=script(say("two"), say("three"))) as h:
            reasons = iter([Reject("too long")])

            async def gate(proposal: StepProposal, call_next: Next[Decision]) -> Decision:
                return next(reasons, None) or await call_next()

            h.ctx.on(PRE_STEP, gate)
            h.agent.send("one")
            h.agent.send("two")
            await h.agent.when_idle()
            assert (count(h, StepStart), len(h.requests), h.turn_end) == (0, 0, Blocked("too long"))
            assert [m.text for m in h.agent.inbox.next_turn] == ["two"]
            await h.send("three")
            self.assert_lines(h, "user: two", "assistant: two", "user: three", "assistant: three")

    async def test_a_later_step_can_be_rejected(self) -> None:
        """L-046: the results are logged, no request follows."""
        async with self.harness(model=script(call("ping"))) as h:
            h.ctx[Tools].register(ping)

            async def gate(proposal: StepProposal, call_next: Next[Decision]) -> Decision:
                return Reject() if proposal.step == 2 else await call_next()

            h.ctx.on(PRE_STEP, gate)
            await h.send("go")
            assert (count(h, StepStart), h.turn_end) == (1, Blocked())
            assert self.lines(h)[-1] == "result: pong"

    async def test_an_empty_first_batch_completes_the_turn_and_parks(self) -> None:
        """L-047, L-227: no step; what is queued waits."""
        async with self.harness(model=script(say("x"))) as h:
            removing = [True]

            async def empty(proposal: StepProposal, call_next: Next[Decision]) -> Decision:
                return Enter([]) if removing.pop() else await call_next()

            h.ctx.on(PRE_STEP, empty)
            h.agent.send("one")
            h.agent.send("two")
            await h.agent.when_idle()
            assert (count(h, StepStart), h.turn_end) == (0, Completed())
            assert [m.text for m in h.agent.inbox.next_turn] == ["two"]

    async def test_a_throwing_listener_ends_the_turn_and_nothing_else(self) -> None:
        """L-050, L-178: reported on `agent/error`, whose own listener may throw."""
        async with self.harness(model=script(say("fine"))) as h:
            failures: list[Exception] = []

            async def gate(proposal: StepProposal, call_next: Next[Decision]) -> Decision:
                if proposal.turn == 1:
                    raise ValueError("bad gate")
                return await call_next()

            def report(failure: object) -> None:
                failures.append(failure.error)  # type: ignore[attr-defined]
                raise RuntimeError("bad reporter")

            h.ctx.on(PRE_STEP, gate)
            h.ctx.on(ERROR, report)
            await h.send("one")
            assert isinstance(h.turn_end, Errored)
            assert (h.turn_end.failure.code, h.turn_end.step) == ("UNKNOWN", None)
            assert "bad gate" in h.turn_end.failure.message
            assert [str(error) for error in failures] == ["bad gate"]
            h.agent.steer("two")
            await h.agent.when_idle()
            assert self.lines(h)[-1] == "assistant: fine"

    async def test_a_decision_of_another_kind_fails_the_turn_with_the_event_named(self) -> None:
        """L-050: a listener that returns nonsense is a failing listener."""
        async with self.harness() as h:
            h.ctx.on("agent/pre-step", lambda proposal, call_next: None)
            await h.send("one")
            assert isinstance(h.turn_end, Errored)
            assert "agent/pre-step" in h.turn_end.failure.message

    async def test_prompt_submit_may_rewrite_and_add_context(self) -> None:
        """L-052, L-053: id and source stay; outer pre-step listeners see the decision."""
        async with self.harness(model=script(say("ok"))) as h:
            entered: list[tuple[str, ...]] = []
            context = create_user_message("it is Monday", PluginSource("calendar"))

            async def submit(submission: PromptSubmission, call_next: Next[Allow | Block]) -> Allow:
                return Allow(submission.message.text.upper(), context)

            async def look(proposal: StepProposal, call_next: Next[Decision]) -> Decision:
                decision = await call_next()
                assert isinstance(decision, Enter)
                entered.append(tuple(m.text for m in decision.messages))
                return decision

            h.ctx.on(PROMPT_SUBMIT, submit)
            h.ctx.on(PRE_STEP, look)
            sent = h.agent.send("hi")
            await h.agent.when_idle()
            assert entered == [("HI", "it is Monday")]
            self.assert_lines(h, "user: HI", "plugin calendar: it is Monday", "assistant: ok")
            logged = h.session.derive_messages()[0]
            assert (logged.id, logged.source) == (sent.id, sent.source)

    async def test_blocking_the_only_waking_message_blocks_the_turn(self) -> None:
        """L-054: zero steps, the reason, and a `prompt/blocked`; injected context goes back."""
        async with self.harness() as h:
            h.ctx.on(PROMPT_SUBMIT, refuse)
            h.agent.inject("context")
            await h.send("you fool")
            assert (count(h, StepStart), h.turn_end) == (0, Blocked("rude"))
            [blocked] = [e.view for e in h.events if isinstance(e.view, PromptBlocked)]
            assert (blocked.reason, blocked.content[0].to_wire()["text"]) == ("rude", "you fool")
            assert [m.text for m in h.agent.inbox.next_step] == ["context"]
            assert h.agent.inbox.next_turn == ()

    async def test_blocking_one_of_several_waking_messages_lets_the_rest_run(self) -> None:
        """L-054: a mixed batch goes on without the blocked prompt."""
        async with self.harness(
            model=script(say("one"), reply(pause("p"), say("two")), say("x"))
        ) as h:
            await h.send("first")
            h.ctx.on(PROMPT_SUBMIT, lambda submission, call_next: Block("no"))
            h.agent.send("bad", wake=False)
            h.agent.steer("good")
            await h.model.reached("p")
            h.model.release("p")
            await h.agent.when_idle()
            assert self.lines(h)[2:] == ("user: good", "assistant: two")
            assert sum(isinstance(e.view, PromptBlocked) for e in h.events) == 1

    async def test_a_throwing_prompt_submit_ends_the_turn_balanced(self) -> None:
        """L-055."""
        async with self.harness(model=script(say("ok"))) as h:

            async def submit(submission: PromptSubmission, call_next: Next[Allow | Block]) -> Allow:
                raise LookupError("policy service is down")

            listening = h.ctx.on(PROMPT_SUBMIT, submit)
            await h.send("hi")
            assert isinstance(h.turn_end, Errored)
            listening.close()
            assert await h.send("hi again") == "ok"
