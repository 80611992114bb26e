"""Bodies of answers, as the OpenAPI document describes them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Event = Annotated[dict[str, Any], Field(description="An event of protocol v1.")]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Answer(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="forbid")


class TurnAnswer(Answer):
    """A turn that came to its end."""

    text: str
    session_id: str
    events: list[Event]
    cursor: str
    stop_reason: Literal["max_turns", "denied"] | None = None


class Scope(Answer):
    """Whose rules apply to a call."""

    tenant: str
    environment: str
    agent: str


class Asked(Answer):
    """Something that waits for a person; the fields are those of its type."""

    type: Literal["approval", "question"]
    id: str
    tool: str | None = None
    args: dict[str, Any] | None = None
    scope: Scope | None = None
    reason: str | None = None
    approve_url: str | None = None
    deny_url: str | None = None
    question: str | None = None
    options: list[str] | None = None
    answer_url: str | None = None
    expires_at: Moment | None = None


class PendingAnswer(Asked):
    """A turn that waits for a person."""

    pending: Literal[True]
    session_id: str
    events: list[Event]
    status_url: str
    cursor: str
    queued: Literal[True] | None = None
    """The item belongs to the turn in front of this one."""


class Taken(Answer):
    """A decision that is durable, for somebody who does not wait for what follows."""

    ok: Literal[True]
    session_id: str
    status_url: str


class ErrorAnswer(Answer):
    """Why a request was not answered as asked."""

    error: str
    code: str
    session_id: str | None = None
    events: list[Event] | None = None
    cursor: str | None = None
    status_url: str | None = None
    error_id: str | None = None
    outcome: str | None = None
    decided_at: Moment | None = None


class SessionEntry(Answer):
    """A session in a list."""

    session_id: str
    status: Literal["idle", "running", "waiting"]
    created_at: Moment
    updated_at: Moment
    turns: int
    pending: int


class SessionList(Answer):
    """Some sessions of an agent, newest first."""

    sessions: list[SessionEntry]
    next_cursor: str | None = None


class ApprovalEntry(Answer):
    """A call that waits for a decision."""

    id: str
    session_id: str
    tool: str
    args: dict[str, Any]
    scope: Scope
    reason: str
    requested_at: Moment
    call_id: str
    editable: bool
    expires_at: Moment | None = None


class ApprovalList(Answer):
    """Calls that wait, in the order in which they were asked about."""

    approvals: list[ApprovalEntry]


class QuestionEntry(Answer):
    """A question that waits for an answer."""

    id: str
    session_id: str
    question: str
    options: list[str] | None = None
    agent: str
    requested_at: Moment
    expires_at: Moment | None = None


class QuestionList(Answer):
    """Questions that wait, in the order in which they were asked."""

    questions: list[QuestionEntry]


class OpenItem(Asked):
    """An open item of a session."""

    requested_at: Moment


class ChildEntry(Answer):
    """A session of a subagent below this one."""

    session_id: str
    agent: str | None = None
    status: Literal["idle", "running", "waiting"]


class LastTurnEntry(Answer):
    """The turn that was begun last; without `end` it runs."""

    turn: int
    end: str | None = None


class SessionStatus(Answer):
    """A session: its history, what is open, and the cursor of the events behind them."""

    session_id: str
    status: Literal["idle", "running", "waiting"]
    history: list[dict[str, Any]]
    pending: list[OpenItem]
    children: list[ChildEntry]
    last_turn: LastTurnEntry | None = None
    cursor: str
    usage: dict[str, int]


class Cancelled(Answer):
    """Whether there was something to cancel."""

    cancelled: bool
    session_id: str


class AgentEntry(Answer):
    """An agent; its prompt is for administrators."""

    name: str
    description: str | None = None
    status: Literal["ok", "unavailable"]
    system_prompt: str | None = None


class AgentList(Answer):
    """The agents of the project."""

    agents: list[AgentEntry]


class Resolved(Answer):
    """Settings as they are in force, without secrets."""

    model_config = ConfigDict(extra="allow")


class ProviderEntry(Answer):
    """A provider of models."""

    name: str
    title: str | None = None


class ModelEntry(Answer):
    """A model of a provider."""

    id: str
    title: str | None = None
    context_window: int | None = None


class Models(Answer):
    """The providers of models, and the models of one of them."""

    providers: list[ProviderEntry]
    models: list[ModelEntry] | None = None


class Gateways(Answer):
    """The sources of tools that other services offer."""

    sources: list[dict[str, Any]]


class Health(Answer):
    """How the service is."""

    status: str
