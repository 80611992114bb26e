"""A policy plugin that uses every checkpoint."""

from terret_agents import (
    PRE_STEP,
    TURN_CONTINUATION,
    Continuation,
    Continue,
    Enter,
    Reject,
    StepProposal,
    Stop,
)
from terret_context import Context, Next, plugin
from terret_llm import PluginSource, create_user_message
from terret_sessions import Blocked
from terret_testing import say, script

from ._chapter import Chapter


class Policies(Chapter):
    """A policy plugin that uses every checkpoint."""

    async def test_an_example_policy_uses_all_checkpoints_and_leaves_nothing(self) -> None:
        """L-206: a destructive prompt is blocked; disposal removes every listener."""
        fired: list[str] = []

        @plugin
        def pace(ctx: Context) -> None:
            async def gate(
                proposal: StepProposal, call_next: Next[Enter | Reject]
            ) -> Enter | Reject:
                fired.append("pre-step")
                if any("rm -rf /" in message.text for message in proposal.messages):
                    return Reject("destructive prompt")
                decision = await call_next()
                if isinstance(decision, Enter) and proposal.step == 1:
                    note = create_user_message("Work in small steps.", PluginSource("pace"))
                    decision = Enter([*decision.messages, note])
                return decision

            async def passing(payload: object, call_next: Next[object]) -> object:
                fired.append("other")
                return await call_next()

            async def go_on(
                question: Continuation, call_next: Next[Continue | Stop]
            ) -> Continue | Stop:
                fired.append("continuation")
                return await call_next()

            ctx.on(PRE_STEP, gate)
            for name in ("session-prefix", "prompt-submit", "request", "step-result"):
                ctx.on(f"agent/{name}", passing)
            ctx.on(TURN_CONTINUATION, go_on)
            ctx.on("agent/turn-stop", lambda question: fired.append("other"))
            ctx.on("agent/turn-stopping", lambda event: fired.append("other"))

        async with self.harness(model=script(say("ok"), say("plain"))) as h:
            fiber = h.ctx.plugin(pace)
            await fiber.ready()
            await h.send("hello")
            assert self.lines(h)[1] == "plugin pace: Work in small steps."
            assert len(fired) == 8
            await h.send("rm -rf /")
            assert h.turn_end == Blocked("destructive prompt")
            await fiber.dispose()
            fired.clear()
            assert await h.send("bye") == "plain"
            assert fired == []
