"""After the body: what policies make of the outcome, and the tool's last word."""

from dataclasses import replace

from terret_llm import TextBlock

from ._decisions import UNSET, Accept, Block
from ._invocation import Invocation
from ._outcome import ToolOutcome, as_blocks, failure, failure_from


def reviewed(call: Invocation, outcome: ToolOutcome, decision: object) -> ToolOutcome:
    """Applies a decision of `tools/post-execute`; raises if it makes no sense."""
    if isinstance(decision, Block):
        return _blocked(decision)
    if not isinstance(decision, Accept):
        raise TypeError(f"tools/post-execute gave {decision!r}, not Accept or Block")
    contexts = (*outcome.additional_contexts, *decision.additional_contexts)
    changes_content = decision.content is not None
    if decision.value is UNSET:
        content = as_blocks(decision.content) if changes_content else outcome.content
        return replace(outcome, content=content, additional_contexts=contexts)
    if changes_content:
        raise ValueError("tools/post-execute: Accept takes a content or a value, not both")
    if outcome.is_error or call.registration is None:
        raise ValueError("tools/post-execute: a call that failed takes no value")
    rendered = call.registration.rendered(decision.value, call.keywords)
    concludes = outcome.concludes_turn and not rendered.is_error
    return replace(rendered, additional_contexts=contexts, concludes_turn=concludes)


def finalized(call: Invocation, outcome: ToolOutcome) -> ToolOutcome:
    """Lets the tool change the content of its outcome."""
    finalize = call.registration.tool.finalize_content if call.registration else None
    if finalize is None:
        return outcome
    try:
        content = finalize(call.exec, outcome)
        return outcome if content is None else replace(outcome, content=as_blocks(content))
    except Exception as error:
        return failure_from(error, contexts=outcome.additional_contexts)


def _blocked(decision: Block) -> ToolOutcome:
    content = as_blocks(decision.feedback)
    text = "".join([each.text for each in content if isinstance(each, TextBlock)]).strip()
    return failure(
        text or "the result was withheld",
        content=() if isinstance(decision.feedback, str) else content,
        contexts=decision.additional_contexts,
    )
