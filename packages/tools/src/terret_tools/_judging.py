"""May a call run? First the policies, then the tool guards."""

from dataclasses import replace

from anyio.lowlevel import checkpoint_if_cancelled

from terret_context import Context

from ._decisions import APPROVAL, Allow, Ask, Decision, Deny
from ._errors import INVALID_ARGS
from ._events import PRE_EXECUTE
from ._invocation import Invocation
from ._outcome import ToolOutcome, failure
from ._registry import Registry

_REFUSALS = {
    "rejected": "it was rejected",
    "cancelled": "the question was cancelled",
    "unavailable": "nobody could be asked",
    "timed-out": "nobody answered in time",
}


async def judge(ctx: Context, registry: Registry, call: Invocation) -> ToolOutcome | None:
    """Returns the outcome of a call that must not run, or `None`.

    A cancellation that finds the call allowed, or that ended the question, is raised here.
    """
    decision = await ctx.waterfall(PRE_EXECUTE, call.exec, Allow)
    if isinstance(decision, Ask):
        decision = await _ask(ctx, call, decision)
    if isinstance(decision, Deny):
        return _denied(decision)
    if not isinstance(decision, Allow):
        raise TypeError(f"tools/pre-execute gave {decision!r}, not Allow, Deny or Ask")
    await checkpoint_if_cancelled()
    if call.exec.fault is not None:
        return failure(f"invalid arguments: {call.exec.fault}", code=INVALID_ARGS)
    for guard in registry.guards(call.exec.agent):
        text = guard(call.exec)
        if isinstance(text, str):
            return _denied(Deny(text))
        if text is not None:
            raise TypeError(f"tool guard {guard!r} gave {text!r}, not text or None")
    await checkpoint_if_cancelled()
    return None


async def _ask(ctx: Context, call: Invocation, ask: Ask) -> Decision:
    approval = ctx.get(APPROVAL)
    if approval is None:
        return _refusal(ask, "unavailable", "there is no approval service")
    if call.exec.agent is None:
        return _refusal(ask, "unavailable", "the call has no agent for which one could ask")
    answer = await approval.request(call.exec, ask.reason)
    if answer.outcome == "allowed-once":
        if answer.arguments is not None:
            call.exec = replace(call.exec, arguments=answer.arguments)
        return Allow()
    if answer.outcome == "cancelled":
        await checkpoint_if_cancelled()
    if answer.outcome not in _REFUSALS:
        raise ValueError(f"the approval service gave the unknown outcome {answer.outcome!r}")
    why = _REFUSALS[answer.outcome]
    return _refusal(ask, answer.outcome, f"{why}: {answer.note}" if answer.note else why)


def _refusal(ask: Ask, outcome: str, why: str) -> Deny:
    need = f"approval is needed ({ask.reason})" if ask.reason else "approval is needed"
    return Deny(f"{need}, but {why}", data={"outcome": outcome})


def _denied(denial: Deny) -> ToolOutcome:
    return failure(denial.reason, code=denial.code, name="Denial", data=denial.data)
