"""The texts of protocol v1 that are made from what the log has."""

from datetime import UTC, datetime

from pydantic_core import from_json, to_json

from terret_llm import TextBlock, ToolResultBlock
from terret_sessions import (
    Aborted,
    Blocked,
    Errored,
    Interrupted,
    OtherEnd,
    TurnEndReason,
)


def failure_text(reason: TurnEndReason) -> str:
    """Says why a turn failed, in words that anybody may read."""
    match reason:
        case Blocked(reason=why):
            return f"blocked: {why}" if why else "blocked"
        case Aborted(cause=cause):
            return ": ".join(["aborted", cause.kind, *([cause.reason] if cause.reason else [])])
        case Errored(failure=failure):
            # Exceptions without a code were never meant for anybody but the operator.
            return _INTERNAL if failure.code == "UNKNOWN" else failure.message
        case Interrupted():
            return "interrupted"
        case OtherEnd(kind=kind):
            return kind
    return type(reason).__name__.lower()


_INTERNAL = "internal error: the log of the harness has the details"


def moment(milliseconds: int) -> str:
    """Writes the time of a log event as ISO 8601 in UTC with milliseconds."""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def message_of(block: ToolResultBlock) -> str:
    """Returns the message of a failed call."""
    return block.text.removeprefix("Error: ")


def summary_of(block: ToolResultBlock, limit: int) -> str:
    """Returns the outcome of a call as JSON text, or `ERROR: ` and a message, at most so long."""
    text = f"ERROR: {message_of(block)}" if block.is_error else _json_of(block)
    return _cut(text, limit)


def _json_of(block: ToolResultBlock) -> str:
    if not all(isinstance(part, TextBlock) for part in block.content):
        return to_json([part.to_wire() for part in block.content]).decode()
    text = block.text
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:
        return to_json(text).decode()
    return text


def _cut(text: str, limit: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    kept = encoded[:limit].decode(errors="ignore")
    left_out = len(encoded) - len(kept.encode())
    return f"{kept} [{left_out} bytes left out]"
