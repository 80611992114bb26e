"""Talks to a Terret service: messages, turns, approvals, questions, sessions."""

from ._client import TerretClient
from ._errors import (
    ApiError,
    MalformedAnswerError,
    StreamLostError,
    TerretClientError,
    UnreachableError,
)
from ._events import Event, EventDecoder
from ._replies import (
    Accepted,
    Answer,
    ApprovalPending,
    QuestionPending,
    Reply,
    SessionHistory,
    SessionPage,
    SessionSummary,
)

__all__ = [
    "Accepted",
    "Answer",
    "ApiError",
    "ApprovalPending",
    "Event",
    "EventDecoder",
    "MalformedAnswerError",
    "QuestionPending",
    "Reply",
    "SessionHistory",
    "SessionPage",
    "SessionSummary",
    "StreamLostError",
    "TerretClient",
    "TerretClientError",
    "UnreachableError",
]
