"""The checkpoints of a turn: asked at their place, answered by default, checked.

Each function reaches a checkpoint afterwards, which raises if the turn was cancelled meanwhile,
and raises `TypeError` if a listener returned what is no answer to the event.
"""

from types import NoneType

from terret_agents import (
    PRE_STEP,
    REQUEST,
    REQUEST_ERROR,
    STEP_RESULT,
    TURN_CONTINUATION,
    TURN_STOP,
    TURN_STOPPING,
    Batch,
    Continuation,
    Continue,
    Enter,
    Reject,
    RequestFailure,
    RequestProposal,
    Retry,
    StepProposal,
    StepResult,
    Stop,
    StopQuestion,
    TurnAgent,
    TurnStop,
    TurnStopping,
)
from terret_llm import LlmCallConfig, LlmError, LlmFailure, Message, RetryPolicy

from ._answer import Answer
from ._decisions import expected, settled_message
from ._entering import enter_batch
from ._prompt import Prompt


async def propose_step(agent: TurnAgent, batch: Batch, prompt: Prompt) -> Enter | Reject:
    """Asks `agent/pre-step` what enters the next step; by default the submitted batch."""
    proposal = StepProposal(
        agent, batch.messages, agent.turn, agent.step + 1, prompt.system, prompt.prefix
    )

    async def enter() -> Enter | Reject:
        return await enter_batch(agent, batch, prompt.due)

    decision = await agent.ctx.waterfall(PRE_STEP, proposal, enter)
    await agent.check()
    return expected(PRE_STEP, decision, Enter, Reject)


async def choose_config(agent: TurnAgent, seed: LlmCallConfig) -> LlmCallConfig:
    """Asks `agent/request` what the next request is made with; by default with the seed."""
    proposal = RequestProposal(agent, agent.turn, agent.step)
    config = await agent.ctx.waterfall(REQUEST, proposal, lambda: seed)
    await agent.check()
    return expected(REQUEST, config, LlmCallConfig)


async def settle_answer(agent: TurnAgent, answer: Answer) -> Message:
    """Asks `agent/step-result` what a complete answer becomes; by default itself.

    Identity, role and source stay as assembled.
    """
    assembled = answer.assembled()
    result = StepResult(agent, agent.turn, agent.step, assembled)
    returned = await agent.ctx.waterfall(STEP_RESULT, result, lambda: assembled)
    await agent.check()
    return settled_message(assembled, expected(STEP_RESULT, returned, Message), answer.finish)


async def recover_request(agent: TurnAgent, answer: Answer, policy: RetryPolicy | None) -> None:
    """Asks `agent/request-error` what to do about a failed request; returns to try it again.

    Raises `LlmError` with the request's own failure if nobody knows better.
    """
    failure = answer.finish.failure or LlmFailure("the request failed", "UNKNOWN")
    provider = answer.request.provider
    failed = RequestFailure(agent, agent.turn, agent.step, provider, failure, policy)
    action = await agent.ctx.waterfall(REQUEST_ERROR, failed, _no_action)
    await agent.check()
    if expected(REQUEST_ERROR, action, Retry, NoneType) is None:
        raise LlmError(failure)


async def ask_continuation(agent: TurnAgent, owed: bool) -> bool:
    """Asks `agent/turn-continuation` and returns whether another request is owed.

    `owed` says whether results wait for the model; pending steering is seen by itself. A reason
    to go on becomes next-step input.
    """
    await agent.check()
    default = Continue() if owed or agent.inbox.next_step else Stop()
    question = Continuation(agent, agent.turn, agent.step, default)
    decision = await agent.ctx.waterfall(TURN_CONTINUATION, question, lambda: default)
    await agent.check()
    decision = expected(TURN_CONTINUATION, decision, Continue, Stop)
    if isinstance(decision, Stop):
        return False  # what the tools gave is logged, no request follows
    if decision.reason is not None:
        agent.inbox.append("next-step", decision.reason)
        return owed
    return owed or isinstance(default, Stop)  # forced: one more request


async def ask_stop(agent: TurnAgent, continues: bool) -> TurnStop | None:
    """Asks `agent/turn-stop` whether the turn ends here; pending next-step input is discarded."""
    stop = await agent.ctx.serial(TURN_STOP, StopQuestion(agent, agent.turn, agent.step, continues))
    await agent.check()
    if stop is None:
        return None
    stop = expected(TURN_STOP, stop, TurnStop)
    agent.inbox.discard("next-step")
    return stop


async def announce_stopping(agent: TurnAgent) -> bool:
    """Announces `agent/turn-stopping` and returns whether a listener steered the turn on."""
    await agent.ctx.serial(TURN_STOPPING, TurnStopping(agent, agent.turn))
    await agent.check()
    return bool(agent.inbox.next_step)


def _no_action() -> None:
    """What is done about a failed request when no listener knows better."""
