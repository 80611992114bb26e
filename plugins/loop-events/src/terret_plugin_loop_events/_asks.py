"""What waits for people: approvals and questions, also those of agents below this one."""

from collections.abc import Mapping
from typing import Final

from terret_sessions import SessionEvent

from ._texts import moment
from .types import ActauthDecision, ApprovalPending, QuestionPending, Scope

_SAID: Final = {
    "allowed-once": "human approved",
    "rejected": "human denied",
    "timed-out": "nobody answered in time",
    "unavailable": "nobody could be asked",
    "cancelled": "the question was cancelled",
}


class Asks:
    """Makes the events of open items; remembers those whose decision stands by itself."""

    __slots__ = ("_agent", "_nested", "_session_id")

    def __init__(self, session_id: str, agent: str) -> None:
        self._session_id = session_id
        self._agent = agent
        self._nested: dict[object, tuple[str, str]] = {}

    def forget(self) -> None:
        """A new turn begins; items do not outlive theirs."""
        self._nested.clear()

    def approval(self, event: SessionEvent) -> ApprovalPending:
        """Somebody has to decide about a call."""
        data = event.data
        args = data.get("args")
        tool, reason = str(data.get("toolName", "")), str(data.get("reason") or "")
        if "origin" in data:
            self._nested[data.get("id")] = (tool, reason)
        return {
            "type": "approval:pending",
            "id": str(data.get("id", "")),
            "tool": tool,
            "args": args if isinstance(args, dict) else {},
            "scope": self._scope(data.get("scope")),
            "reason": reason,
            "requestedAt": moment(event.time),
        }

    def decision(self, data: Mapping[str, object]) -> ActauthDecision | None:
        """Returns the decision about a call that is none of this session's own requests."""
        nested = self._nested.pop(data.get("id"), None)
        if nested is None:
            return None
        tool, reason = nested
        outcome = str(data.get("outcome", ""))
        said = _SAID.get(outcome, outcome)
        return {
            "type": "actauth:decision",
            "tool": tool,
            "decision": "allow" if outcome == "allowed-once" else "deny",
            "reason": f"{reason} - {said}" if reason else said,
        }

    def question(self, event: SessionEvent) -> QuestionPending:
        """Somebody has to answer a question."""
        data = event.data
        pending: QuestionPending = {
            "type": "question:pending",
            "id": str(data.get("id", "")),
            "question": str(data.get("question", "")),
            "agent": str(data.get("agent", self._agent)),
            "sessionId": self._session_id,
            "requestedAt": moment(event.time),
        }
        options = data.get("options")
        if isinstance(options, list | tuple):
            pending["options"] = [str(option) for option in options]
        return pending

    def _scope(self, scope: object) -> Scope:
        known = scope if isinstance(scope, dict) else {}
        return {
            "tenant": str(known.get("tenant", "")),
            "environment": str(known.get("environment", "")),
            "agent": str(known.get("agent", self._agent)),
        }
