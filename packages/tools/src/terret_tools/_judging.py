"""May a call run? First the policies, then the tool guards, then those who keep records."""

from dataclasses import replace

from anyio.lowlevel import checkpoint_if_cancelled

from terret_context import Context

from ._decisions import APPROVAL, Allow, Ask, Deny, Grounds, GroundsSource
from ._errors import INVALID_ARGS
from ._events import DECIDED, PRE_EXECUTE, Decided
from ._invocation import Invocation
from ._registry import Registry

_REFUSALS = {
    "rejected": "human denied",
    "cancelled": "the question was cancelled",
    "unavailable": "nobody could be asked",
    "timed-out": "nobody answered in time",
}
_SOURCES: dict[str, GroundsSource] = {"rejected": "human", "timed-out": "timeout"}


async def judge(ctx: Context, registry: Registry, call: Invocation) -> Allow | Deny:
    """Asks policies, whoever has to approve, and tool guards; the decision has grounds.

    A cancellation that finds the call allowed, or that ended the question, is raised here.
    """
    decision = await ctx.waterfall(PRE_EXECUTE, call.exec, Allow)
    if isinstance(decision, Ask):
        decision = await _ask(ctx, call, decision)
    if isinstance(decision, Deny):
        return decision if decision.grounds else _denial(decision, "hook")
    if not isinstance(decision, Allow):
        raise TypeError(f"tools/pre-execute gave {decision!r}, not Allow, Deny or Ask")
    await checkpoint_if_cancelled()
    if call.exec.fault is not None:
        reason = f"invalid arguments: {call.exec.fault}"
        return _denial(Deny(reason, INVALID_ARGS), "validation")
    for guard in registry.guards(call.exec.agent):
        text = guard(call.exec)
        if isinstance(text, str):
            return _denial(Deny(text), "guard")
        if text is not None:
            raise TypeError(f"tool guard {guard!r} gave {text!r}, not text or None")
    await checkpoint_if_cancelled()
    return Allow(decision.grounds or Grounds(source="default", reason="no policy objects"))


async def confirm(ctx: Context, call: Invocation, decision: Allow | Deny) -> Allow | Deny:
    """Lets listeners of `tools/decided` record a decision; they may deny, never allow."""
    if not ctx.listeners(DECIDED, call.exec.agent):
        return decision
    given = await ctx.waterfall(DECIDED, Decided(call.exec, decision), lambda: decision)
    if not isinstance(given, Deny) and given is not decision:
        raise TypeError(f"tools/decided gave {given!r}, not a Deny or what was decided")
    return given


async def _ask(ctx: Context, call: Invocation, ask: Ask) -> Allow | Deny:
    grounds = ask.grounds or Grounds(source="hook", reason=ask.reason or "approval is needed")
    approval = ctx.get(APPROVAL)
    if approval is None:
        return _refusal(grounds, "unavailable", "there is no approval service")
    if call.exec.agent is None:
        return _refusal(grounds, "unavailable", "the call has no agent for which one could ask")
    answer = await approval.request(call.exec, ask)
    grounds = replace(grounds, approval=answer)
    if answer.outcome == "allowed-once":
        if answer.arguments is not None:
            call.exec = replace(call.exec, arguments=answer.arguments)
        reason = f"{grounds.reason} - human approved"
        return Allow(replace(grounds, source="human", reason=reason))
    if answer.outcome == "cancelled":
        await checkpoint_if_cancelled()
    if answer.outcome not in _REFUSALS:
        raise ValueError(f"the approval service gave the unknown outcome {answer.outcome!r}")
    return _refusal(grounds, answer.outcome, _REFUSALS[answer.outcome])


def _refusal(grounds: Grounds, outcome: str, why: str) -> Deny:
    reason = f"{grounds.reason} - {why}"
    source = _SOURCES.get(outcome, grounds.source)
    note = grounds.approval.note if grounds.approval else None
    return Deny(
        f"denied: {reason}: {note}" if note else f"denied: {reason}",
        data={"outcome": outcome},
        grounds=replace(grounds, source=source, reason=reason),
    )


def _denial(denial: Deny, source: GroundsSource) -> Deny:
    return replace(denial, grounds=Grounds(source=source, reason=denial.reason))
