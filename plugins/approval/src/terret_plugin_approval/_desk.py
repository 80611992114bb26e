"""The items that wait, and what the log keeps of them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from terret_agents import Agents, Inquiries, InquiryEnd, InquiryLog, timestamp
from terret_sessions import MAX_DEPTH, LosslessJsonError, copy_json, declare_event_type
from terret_tools import PRE_EXECUTE, Allow, ApprovalDecision, Deny, Tools

from ._errors import EditDeniedError, InvalidEditError, NotEditableError
from ._items import REQUEST, ApprovalItem

APPROVALS: Final = InquiryLog("approval", "approval/asked", "approval/decided")

# Plain JSON: a log that another version wrote has to load.
declare_event_type(APPROVALS.asked)
declare_event_type(APPROVALS.ended)


def outcome_of(end: InquiryEnd, decision: ApprovalDecision | None) -> str:
    """Returns the word for how an ask ended."""
    if end == "answered" and decision is not None:
        return "allowed-once" if decision.allow else "rejected"
    return end


class Desk(Inquiries[ApprovalItem, ApprovalDecision]):
    """Asks about calls, one after the other."""

    def log_asked(self, item: ApprovalItem) -> None:
        call = item.call
        data = {
            "id": item.id,
            "toolName": call.name,
            "callId": call.call_id,
            "reason": item.reason,
            "args": _object(call.plain_arguments()),
            "scope": dict(item.scope),
            "rule": item.rule,
            "editable": item.editable,
            "expiresAt": timestamp(item.expires_at),
        }
        inside = None if call.parent is None else call.root_call_id
        self.log.log_asked(self.ctx[Agents], item.agent, _present(data), inside=inside)

    def log_ended(
        self, item: ApprovalItem, end: InquiryEnd, reply: ApprovalDecision | None
    ) -> None:
        data: dict[str, object] = {"id": item.id, "outcome": outcome_of(end, reply)}
        if reply is not None:
            data |= {"by": reply.by, "note": reply.note}
            data |= {"args": None if reply.args is None else dict(reply.args)}
            data |= {"remember": (reply.remember and reply.allow) or None}
        self.log.log_ended(self.ctx[Agents], item.agent, _present(data))

    async def consult(
        self, item: ApprovalItem, everybody: Callable[[], Awaitable[ApprovalDecision | None]]
    ) -> ApprovalDecision | None:
        return await self.ctx.waterfall(REQUEST, item, everybody)

    async def vet(self, item: ApprovalItem, reply: ApprovalDecision) -> None:
        """Raises for a decision of another kind, and for changed arguments that cannot run."""
        if not isinstance(reply, ApprovalDecision):
            raise TypeError(f"{reply!r} is no ApprovalDecision")
        if reply.args is None or not reply.allow:
            return
        if not item.editable:
            raise NotEditableError(item.id)
        try:
            copy_json({"args": dict(reply.args)}, max_depth=MAX_DEPTH)
        except LosslessJsonError as error:  # the log could not keep the decision
            raise InvalidEditError(item.id, str(error)) from None
        edited = replace(item.call, arguments=dict(reply.args))
        failure = self.ctx[Tools].check(edited)
        if failure is not None:
            raise InvalidEditError(item.id, failure.text.removeprefix("Error: "))
        verdict = await self.ctx.waterfall(PRE_EXECUTE, edited, Allow)
        if isinstance(verdict, Deny):
            raise EditDeniedError(item.id, verdict.reason.removeprefix("denied: "))


def _object(arguments: object) -> dict[str, object]:
    return arguments if isinstance(arguments, dict) else {}


def _present(data: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in data.items() if value is not None}
