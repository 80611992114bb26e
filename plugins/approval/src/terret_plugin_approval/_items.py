"""What people are asked about calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from terret_agents import Agent
from terret_context import Waterfall
from terret_tools import ApprovalDecision, ToolExec


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


REQUEST = Waterfall[ApprovalItem, ApprovalDecision | None](
    "approval/request",
    subject=attrgetter("agent"),
    doc="Somebody has to decide about a call; it is in the log already.",
)
