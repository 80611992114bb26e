from collections.abc import Mapping
from dataclasses import field

from ._reading import as_object, only, optional, required
from ._slotted import slotted


@slotted
class Usage:
    """Tokens of one call. Input buckets are disjoint; `reasoning_tokens` is part of the output."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log; absent buckets are left out."""
        wire: dict[str, object] = {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
        }
        if self.cache_read_tokens is not None:
            wire["cacheReadTokens"] = self.cache_read_tokens
        if self.cache_write_tokens is not None:
            wire["cacheWriteTokens"] = self.cache_write_tokens
        if self.reasoning_tokens is not None:
            wire["reasoningTokens"] = self.reasoning_tokens
        return wire


def usage_from_wire(data: object) -> Usage:
    """Read the token counts of the log; raises ValueError if they are malformed."""
    wire = as_object(data, "usage")
    only(wire, _USAGE_KEYS, "usage")
    return Usage(
        required(wire, "inputTokens", int, "usage"),
        required(wire, "outputTokens", int, "usage"),
        optional(wire, "cacheReadTokens", int, "usage"),
        optional(wire, "cacheWriteTokens", int, "usage"),
        optional(wire, "reasoningTokens", int, "usage"),
    )


@slotted
class LlmFailure:
    """Why a call failed. Route on `code`; `message` is for people."""

    message: str
    code: str
    status: int | None = None
    provider_retry_after_ms: int | None = None
    request_id: str | None = None

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log; absent facts are left out."""
        wire: dict[str, object] = {"message": self.message, "code": self.code}
        if self.status is not None:
            wire["status"] = self.status
        if self.provider_retry_after_ms is not None:
            wire["providerRetryAfterMs"] = self.provider_retry_after_ms
        if self.request_id is not None:
            wire["requestId"] = self.request_id
        return wire


def failure_from_wire(data: object) -> LlmFailure:
    """Read a failure of the log; raises ValueError if it is malformed."""
    wire = as_object(data, "failure")
    only(wire, _FAILURE_KEYS, "failure")
    return LlmFailure(
        required(wire, "message", str, "failure"),
        required(wire, "code", str, "failure"),
        optional(wire, "status", int, "failure"),
        optional(wire, "providerRetryAfterMs", int, "failure"),
        optional(wire, "requestId", str, "failure"),
    )


@slotted
class Finish:
    """How a stream ended: stop, tool-calls, max-tokens, aborted, error, or a provider's own kind.

    Unknown kinds count as stop. `failure` stands on aborted and error only. `replay_state` is
    opaque JSON of the adapter, `{"response": ..., "blocks": [...]}`.
    """

    kind: str
    failure: LlmFailure | None = None
    replay_state: Mapping[str, object] | None = field(default=None, hash=False)

    @classmethod
    def stop(cls, *, replay_state: Mapping[str, object] | None = None) -> "Finish":
        """The model had nothing more to say."""
        return cls("stop", None, replay_state)

    @classmethod
    def tool_calls(cls, *, replay_state: Mapping[str, object] | None = None) -> "Finish":
        """The model waits for results of its tool calls."""
        return cls("tool-calls", None, replay_state)

    @classmethod
    def max_tokens(cls, *, replay_state: Mapping[str, object] | None = None) -> "Finish":
        """The output ceiling cut the answer."""
        return cls("max-tokens", None, replay_state)

    @classmethod
    def aborted(cls, failure: LlmFailure) -> "Finish":
        """The provider or an adapter gave the call up."""
        return cls("aborted", failure)

    @classmethod
    def error(cls, failure: LlmFailure) -> "Finish":
        """The call failed."""
        return cls("error", failure)

    @property
    def failed(self) -> bool:
        """Whether no message may be made of this stream."""
        return self.kind == "error" or self.kind == "aborted"

    def to_wire(self) -> dict[str, object]:
        """The `reason` of a finish chunk; the replay state stands beside it, not in it."""
        if self.failure is None:
            return {"kind": self.kind}
        return {"kind": self.kind, "failure": self.failure.to_wire()}


def finish_from_wire(data: object, replay_state: Mapping[str, object] | None = None) -> Finish:
    """Read the `reason` of a finish chunk; raises ValueError if it is malformed."""
    wire = as_object(data, "finish reason")
    only(wire, _FINISH_KEYS, "finish reason")
    kind = required(wire, "kind", str, "finish reason")
    failure = failure_from_wire(wire["failure"]) if "failure" in wire else None
    if (failure is not None) != (kind in ("error", "aborted")):
        raise ValueError("finish reason: 'failure' belongs to error and aborted, and only to them")
    return Finish(kind, failure, replay_state)


_USAGE_KEYS = frozenset(
    {"inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"}
)
_FAILURE_KEYS = frozenset({"message", "code", "status", "providerRetryAfterMs", "requestId"})
_FINISH_KEYS = frozenset({"kind", "failure"})
