"""The 17 events of the LoopEngine protocol v1, one class for each definition of its schema.

They are JSON objects as they stand on the wire. A class is named like its definition, and a test
compares the two.
"""

from typing import Literal, NotRequired, TypeAlias, TypedDict


class Scope(TypedDict):
    """Whose rules apply to a call."""

    tenant: str
    environment: str
    agent: str


class Nudge(TypedDict):
    """What the model is told when its budget runs low."""

    role: str
    content: str


class BudgetCheck(TypedDict):
    """How much of the budget is used; once for each model call, in front of it."""

    type: Literal["budget:check"]
    action: Literal["ok", "nudge", "over_hard_limit"]
    usedTokens: float
    budgetTokens: float
    ratio: float
    nudge: NotRequired[Nudge]


PromptCompaction = TypedDict(  # a class has no place for the key "from"
    "PromptCompaction", {"type": Literal["prompt:compaction"], "from": float, "to": float}
)
"""The history was shortened for this call; counts of messages."""


class AssistantText(TypedDict):
    """Text beside tool calls, or in front of a continuation."""

    type: Literal["assistant:text"]
    text: str


class ActauthDecision(TypedDict):
    """What was decided about one call, in the end."""

    type: Literal["actauth:decision"]
    tool: str
    decision: Literal["allow", "ask", "deny"]
    reason: str


class ToolStarted(TypedDict):
    """A call may run."""

    type: Literal["tool:started"]
    id: str
    tool: str
    args: dict[str, object]
    detailText: str


class ToolResult(TypedDict):
    """A call is over: `Approved.`, `Error.`, `Denied.`, `Skipped.` or `Cancelled.`."""

    type: Literal["tool:result"]
    id: str
    tool: str
    args: NotRequired[dict[str, object]]
    detailText: NotRequired[str]
    statusText: str


class ToollaneResult(TypedDict):
    """What a call gave, as JSON text, or `ERROR: ` and a message; right before its result."""

    type: Literal["toollane:result"]
    name: str
    summary: str


class SkillLoaded(TypedDict):
    """The body of a skill was given to the model."""

    type: Literal["skill:loaded"]
    skill: str


class LoopSkipped(TypedDict):
    """A call was not run because a person denied another one."""

    type: Literal["loop:skipped"]
    name: str
    deniedTools: list[str]


class LoopMaxTurns(TypedDict):
    """The turn has made as many model calls as it may."""

    type: Literal["loop:max_turns"]
    maxTurns: float


class LoopDenied(TypedDict):
    """A person denied calls, and the turn stops."""

    type: Literal["loop:denied"]
    deniedTools: list[str]


class LoopDone(TypedDict):
    """The model is done."""

    type: Literal["loop:done"]
    text: str


class Session(TypedDict):
    """A turn begins."""

    type: Literal["session"]
    sessionId: str


class ApprovalPending(TypedDict):
    """Somebody has to decide about a call."""

    type: Literal["approval:pending"]
    id: str
    tool: str
    args: dict[str, object]
    scope: Scope
    reason: str
    requestedAt: str


class QuestionPending(TypedDict):
    """Somebody has to answer a question."""

    type: Literal["question:pending"]
    id: str
    question: str
    options: NotRequired[list[str]]
    agent: str
    sessionId: NotRequired[str]
    requestedAt: str


class Done(TypedDict):
    """The turn is over."""

    type: Literal["done"]
    text: str
    stopReason: NotRequired[Literal["max_turns", "denied"]]


class Error(TypedDict):
    """The turn failed; nothing follows."""

    type: Literal["error"]
    error: str


LoopEvent: TypeAlias = (
    BudgetCheck
    | PromptCompaction
    | AssistantText
    | ActauthDecision
    | ToolStarted
    | ToolResult
    | ToollaneResult
    | SkillLoaded
    | LoopSkipped
    | LoopMaxTurns
    | LoopDenied
    | LoopDone
    | Session
    | ApprovalPending
    | QuestionPending
    | Done
    | Error
)
"""One event of a turn; `type` tells which."""
