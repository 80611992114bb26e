"""What callers are told when something cannot be done, and why the service does not start."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import uuid4

from terret_agents import InquiryClosedError, timestamp
from terret_context import TerretError
from terret_llm import HarnessError


class UnsafeBindError(TerretError):
    """The service would be open to other machines without asking anybody who they are."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"{host} is reached from other machines: set TERRET_API_TOKEN to a secret that callers "
            "have to know, or bind 127.0.0.1"
        )


class BindError(TerretError):
    """The service cannot listen where it should."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host = host
        self.port = port
        super().__init__(f"cannot listen on {host}, port {port}: {reason}")


class PortInUseError(BindError):
    """Somebody else listens on the port."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port, "the port is in use; choose another one with http.port")


class MissingTokenError(TerretError):
    """A variable that should hold a token is not set."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"http.auth.tokens names the variable {name}, which is not set")


class HttpError(TerretError):
    """A request is answered with an error: status, code, public text and further fields."""

    def __init__(
        self,
        status: int,
        code: str,
        text: str,
        *,
        headers: Mapping[str, str] | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
        self.fields = dict(fields or {})
        super().__init__(text)


def draining() -> HttpError:
    """Returns the error for what comes too late."""
    return HttpError(503, "draining", "the service shuts down: try again later")


class _Rule(NamedTuple):
    """How an error of the harness is told; without a text by its own."""

    status: int
    code: str
    text: str | None = None


# The texts of errors without one here are for anybody: they hold neither paths nor causes.
_RULES: Final = {
    "NO_SUCH_AGENT": _Rule(404, "unknown_agent"),
    "AGENT_UNAVAILABLE": _Rule(
        503, "agent_unavailable", "the definition of the agent is invalid: see the log"
    ),
    "AGENT_DISPOSED": _Rule(503, "draining", "the agent is being taken down: try again"),
    "AGENT_BUSY": _Rule(409, "session_busy", "a turn of the session runs"),
    "SESSION_STATE": _Rule(409, "session_busy", "the session is in use"),
    "SESSION_LOCKED": _Rule(409, "session_busy", "another process uses the session"),
    "SESSION_ALREADY_EXISTS": _Rule(409, "session_busy", "the session is in use"),
    "SESSION_NOT_FOUND": _Rule(404, "unknown_session", "there is no such session"),
    "SESSION_CORRUPT": _Rule(500, "internal", "the stored session is damaged at {place}"),
    "SESSION_FORMAT": _Rule(500, "internal", "the stored session cannot be read at {place}"),
    "NOT_EDITABLE": _Rule(403, "not_editable"),
    "EDIT_DENIED": _Rule(403, "edit_denied"),
    "INVALID_ARGS": _Rule(400, "invalid_args"),
    "BAD_ANSWER": _Rule(400, "bad_answer"),
    "UNKNOWN_ITEM": _Rule(404, "unknown_item"),
    "ALREADY_DECIDED": _Rule(404, "already_decided"),
}


def http_error_of(error: Exception) -> HttpError:
    """Returns how an error is told to the caller; one that nobody foresaw as `internal`.

    Those of status 500 have an `errorId`, under which the error itself is to be reported.
    """
    if isinstance(error, HttpError):
        return error
    rule = _RULES.get(error.code) if isinstance(error, HarnessError) else None
    if rule is None:
        rule = _Rule(500, "internal", "something went wrong in the service: see its log")
    text = (rule.text or str(error)).replace("{place}", str(getattr(error, "place", "")))
    told = HttpError(rule.status, rule.code, text)
    if isinstance(error, InquiryClosedError):
        told.fields |= {"outcome": error.outcome, "decidedAt": timestamp(error.at)}
    if rule.status == 500:
        told.fields["errorId"] = error_id()
    return told


def error_id() -> str:
    """Returns a fresh id under which the log tells more."""
    return uuid4().hex[:12]
