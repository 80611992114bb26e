"""What people are asked about calls, and what they may answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from terret_agents import Agent
from terret_context import Waterfall
from terret_tools import ToolExec


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalItem:
    """A call that waits for somebody's decision.

    Attributes:
        id: names the item; it is not the id of the call.
        agent: whose call it is.
        call: the call, with the arguments the model wrote.
        scope: whose rules apply: tenant, environment and agent.
        reason: why somebody is asked.
        rule: the rule that wants to know.
        editable: whether a decision may change the arguments.
        requested_at: when it was asked.
        expires_at: when it is denied for lack of an answer.
    """

    id: str
    agent: Agent
    call: ToolExec
    scope: Mapping[str, str]
    reason: str | None
    rule: str | None
    editable: bool
    requested_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision:
    """What somebody decided about a call.

    Attributes:
        allow: whether the call may run.
        args: other arguments for it, where the item is editable.
        note: what the model reads of a denial.
        by: who decided.
        remember: whether the same call may run for the rest of the session without being asked
            about; for allowed calls.
    """

    allow: bool
    args: Mapping[str, object] | None = None
    note: str | None = None
    by: str | None = None
    remember: bool = False


REQUEST = Waterfall[ApprovalItem, ApprovalDecision | None](
    "approval/request",
    subject=attrgetter("agent"),
    doc="Somebody has to decide about a call; it is in the log already.",
)
