"""What goes wrong between a client and a service."""

from collections.abc import Mapping
from typing import Any


class TerretClientError(Exception):
    """Something went wrong between the client and the service."""


class ApiError(TerretClientError):
    """The service answered with an error.

    `status` is that of HTTP and `code` one of the service's own words, such as `unknown_agent` or
    `session_busy` (`http` if the answer did not come from the service). `error_id` finds the
    details in the log of the service. `body` is the whole answer; where a turn is concerned it
    holds `events` and `cursor`.
    """

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: str | None = None):
        self.status = status
        self.body = body
        self.code = str(body.get("code") or "http")
        self.error = str(body.get("error") or "no reason given")
        self.error_id: str | None = body.get("errorId")
        self.session_id: str | None = body.get("sessionId")
        self.retry_after = int(retry_after) if retry_after and retry_after.isdigit() else None
        """Seconds after which it may be worth trying again."""
        hint = f" (errorId {self.error_id})" if self.error_id else ""
        super().__init__(f"{status} {self.code}: {self.error}{hint}")


class UnreachableError(TerretClientError):
    """No answer came: the connection could not be made, or it broke.

    Whether the service received the request is unknown. A message that was sent with a session and
    a `message_id` may be sent again with the same two: it starts nothing twice.
    """

    def __init__(self, method: str, url: str, reason: str) -> None:
        self.method = method
        self.url = url
        super().__init__(f"{method} {url}: {reason}")


class StreamLostError(TerretClientError):
    """The stream broke, and the service could not be reached again in time.

    The turn goes on without a reader. `TerretClient.stream_events(agent, session_id,
    after=cursor)` gives the rest, to whatever process asks.
    """

    def __init__(self, session_id: str | None, cursor: str | None, attempts: int) -> None:
        self.session_id = session_id
        self.cursor = cursor
        self.attempts = attempts
        super().__init__(
            f"the stream of session {session_id!r} broke after cursor {cursor!r}, and "
            f"{attempts} attempts to take it up again failed"
        )


class MalformedAnswerError(TerretClientError, ValueError):
    """The service sent what is no event."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the service sent {problem}")
