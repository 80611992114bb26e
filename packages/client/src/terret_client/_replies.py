"""What the service answers, with the whole answer beside the fields that are documented."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ._events import Event

Body: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TurnReply:
    session_id: str
    events: tuple[Event, ...]
    """The turn so far, from its beginning; all of it if it is over."""
    cursor: str | None
    """Where that ends."""
    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(_TurnReply):
    """The turn is over."""

    text: str
    stop_reason: str | None
    """`max_turns` or `denied` if it was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPending(_TurnReply):
    """The turn waits until somebody allows a call or denies it; it goes on without its client."""

    id: str
    tool: str
    args: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPending(_TurnReply):
    """The turn waits for the answer to a question; it goes on without its client."""

    id: str
    question: str
    options: tuple[str, ...]


Reply: TypeAlias = Answer | ApprovalPending | QuestionPending
"""How a turn answers: it is over, or it waits for a human."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The decision is stored, and nobody waited for what comes of it."""

    session_id: str
    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """One session of a list."""

    session_id: str
    status: str
    """`idle`, `running` or `waiting`."""
    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHistory(SessionSummary):
    """A session as it is now. What comes after `cursor` is not part of it yet."""

    history: tuple[Body, ...]
    """The messages, as the model sees them."""
    pending: tuple[Body, ...]
    """The approvals and questions that are open."""
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPage:
    """A part of the list of sessions, newest first; `next_cursor` asks for the next part."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None


def reply(body: Body) -> Reply:
    """Reads an answer of the 200 and 202 family."""
    common: dict[str, Any] = {
        "session_id": body["sessionId"],
        "events": tuple(map(Event.of, body.get("events", ()))),
        "cursor": body.get("cursor"),
        "body": body,
    }
    if not body.get("pending"):
        return Answer(text=body["text"], stop_reason=body.get("stopReason"), **common)
    if body.get("type") == "question":
        options = tuple(body.get("options") or ())
        return QuestionPending(id=body["id"], question=body["question"], options=options, **common)
    return ApprovalPending(
        id=body["id"], tool=body["tool"], args=body["args"], reason=body["reason"], **common
    )


def accepted(body: Body) -> Accepted:
    return Accepted(session_id=body["sessionId"], body=body)


def history(body: Body) -> SessionHistory:
    return SessionHistory(
        session_id=body["sessionId"],
        status=body["status"],
        history=tuple(body["history"]),
        pending=tuple(body.get("pending", ())),
        cursor=body.get("cursor"),
        body=body,
    )


def page(body: Body) -> SessionPage:
    sessions = tuple(
        SessionSummary(session_id=one["sessionId"], status=one["status"], body=one)
        for one in body["sessions"]
    )
    return SessionPage(sessions=sessions, next_cursor=body.get("nextCursor"))
