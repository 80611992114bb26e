from dataclasses import dataclass
from typing import Any, Literal

from terret_context import Context, Next, plugin
from terret_sessions import declare_event_type
from terret_tools import DECIDED, SKIPPED_SIBLING_DENIED, Allow, Decided, Deny, Tools


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """What was decided about a call, before its body or its refusal; `tool/decision` in the log.

    `args` are the arguments after a person changed them.
    """

    turn: int
    step: int
    call_id: str
    name: str
    decision: Literal["allow", "deny"]
    source: str
    reason: str
    rule: str | None = None
    approval_id: str | None = None
    args: dict[str, Any] | None = None


declare_event_type("tool/decision", ToolDecision, ignorable=True)


@plugin(inject=(Tools,))
def tool_decisions(ctx: Context) -> None:
    """Records what was decided about each tool call."""

    async def record(decided: Decided, call_next: Next[Allow | Deny]) -> Allow | Deny:
        decision = await call_next()
        _log(decided, decision)
        return decision

    # Outermost, so that it sees what the others make of the decision.
    ctx.on(DECIDED, record, prepend=True)


def _log(decided: Decided, decision: Allow | Deny) -> None:
    call, grounds = decided.exec, decision.grounds
    skipped = isinstance(decision, Deny) and decision.code == SKIPPED_SIBLING_DENIED
    if call.agent is None or call.parent is not None or skipped:
        return
    session = call.agent.session
    approval = grounds.approval if grounds else None
    edited = call.plain_arguments() if approval and approval.arguments is not None else None
    reason = decision.reason if isinstance(decision, Deny) else "no policy objects"
    record = ToolDecision(
        turn=session.open_turn or session.last_turn,
        step=session.open_step or 0,
        call_id=call.call_id,
        name=call.name,
        decision="deny" if isinstance(decision, Deny) else "allow",
        source=grounds.source if grounds else "hook",
        reason=grounds.reason if grounds else reason,
        rule=grounds.rule if grounds else None,
        approval_id=approval.id if approval else None,
        args=edited if isinstance(edited, dict) else None,
    )
    session.append("tool/decision", record)
