"""What enters a step when no listener of `agent/pre-step` decides otherwise."""

from collections.abc import Callable

from terret_agents import (
    PROMPT_SUBMIT,
    Allow,
    Batch,
    Block,
    Enter,
    PromptSubmission,
    Reject,
    TurnAgent,
)
from terret_llm import Message, TextBlock
from terret_sessions import PromptBlocked

from ._decisions import expected


async def enter_batch(
    agent: TurnAgent, batch: Batch, due: Callable[[], Message | None]
) -> Enter | Reject:
    """Submits the prompt of a batch and adds the runtime context that is due.

    A blocked prompt leaves the batch and is logged; without other input that was sent to be run
    the step is rejected. Runtime context alone enters nothing.
    """
    messages = batch.messages
    prompt = batch.prompt
    if prompt is not None:
        submission = PromptSubmission(agent, agent.turn, prompt)
        answer = await agent.ctx.waterfall(PROMPT_SUBMIT, submission, Allow)
        await agent.check()
        answer = expected(PROMPT_SUBMIT, answer, Allow, Block)
        if isinstance(answer, Allow):
            messages = _with_answer(messages, prompt, answer)
        else:
            _log_blocked(agent, prompt, answer.reason)
            if batch.waking <= {prompt.id}:
                return Reject(answer.reason)
            messages = tuple(message for message in messages if message is not prompt)
    facts = due() if messages else None
    return Enter(messages if facts is None else (*messages, facts))


def _log_blocked(agent: TurnAgent, prompt: Message, reason: str) -> None:
    blocked = PromptBlocked(prompt.content, prompt.source, reason, prompt.id)
    agent.session.append("prompt/blocked", blocked, ignorable=True)


def _with_answer(
    messages: tuple[Message, ...], prompt: Message, answer: Allow
) -> tuple[Message, ...]:
    if answer.content is not None:
        content = answer.content
        blocks = (TextBlock(content),) if isinstance(content, str) else tuple(content)
        rewritten = Message(prompt.id, prompt.role, blocks, prompt.source)
        messages = tuple(rewritten if message is prompt else message for message in messages)
    if answer.additional_context is not None:
        # The prompt is the last of its batch, so its context comes behind it.
        messages = (*messages, answer.additional_context)
    return messages
