"""The plugin: counts the steps of a turn at `agent/turn-stop`."""

from pydantic import PositiveInt

from terret_agents import (
    PRE_STEP,
    TURN_STOP,
    Agents,
    Enter,
    Reject,
    StepProposal,
    StopQuestion,
    TurnStop,
)
from terret_context import Config, Context, Next, plugin
from terret_sessions import MaxSteps


class StepLimitConfig(Config):
    """Configuration of the entry `step-limit`."""

    max_steps: PositiveInt = 25
    """How many steps, each a request to the model and its tool calls, a turn may take."""


@plugin(config=StepLimitConfig, inject=(Agents,))
def step_limit(ctx: Context, config: StepLimitConfig) -> None:
    """Ends turns that would go on after their last step, with the reason `max-steps`."""
    limit = config.max_steps

    def stop(question: StopQuestion) -> TurnStop | None:
        spent = question.continues and question.step >= limit
        return TurnStop(MaxSteps(limit)) if spent else None

    async def gate(proposal: StepProposal, call_next: Next[Enter | Reject]) -> Enter | Reject:
        if proposal.step > limit:  # a listener of turn-stopping wants more than there is
            return Reject(f"the limit of {limit} steps a turn is reached")
        return await call_next()

    ctx.on(TURN_STOP, stop)
    ctx.on(PRE_STEP, gate)
