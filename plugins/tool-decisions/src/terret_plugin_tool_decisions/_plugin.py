from terret_context import Context, Next, plugin
from terret_sessions import declare_event_type
from terret_tools import DECIDED, SKIPPED_SIBLING_DENIED, Allow, Decided, Deny, Tools

# Plain JSON: a log that another version wrote has to load.
declare_event_type("tool/decision", ignorable=True)


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
    call = decided.exec
    skipped = isinstance(decision, Deny) and decision.code == SKIPPED_SIBLING_DENIED
    if call.agent is None or call.parent is not None or skipped:
        return
    session = call.agent.session
    row = {
        "turn": session.open_turn or session.last_turn,
        "step": session.open_step or 0,
        "callId": call.call_id,
        "name": call.name,
        "decision": "deny" if isinstance(decision, Deny) else "allow",
        **_grounds(decided, decision),
    }
    session.append("tool/decision", {key: row[key] for key in row if row[key] is not None})


def _grounds(decided: Decided, decision: Allow | Deny) -> dict[str, object]:
    grounds = decision.grounds
    if grounds is None:  # a listener denied what had been allowed
        return {"source": "hook", "reason": getattr(decision, "reason", "")}
    approval = grounds.approval
    edited = approval is not None and approval.arguments is not None
    return {
        "source": grounds.source,
        "rule": grounds.rule,
        "reason": grounds.reason,
        "approvalId": approval.id if approval else None,
        "args": decided.exec.plain_arguments() if edited else None,
    }
