from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terret_llm import LlmFailure, failure_from_wire
from terret_sessions import declare_event_type


@dataclass(frozen=True, slots=True)
class LlmRetry:
    """A failed request will be made again after `delay_ms`; the `retry`-th time of its chain."""

    retry_id: str
    turn: int
    step: int
    provider: str
    policy_key: str
    retry: int
    max_retries: int
    delay_ms: int
    failure: LlmFailure
    mode: str = "normal"

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {
            "retryId": self.retry_id,
            "turn": self.turn,
            "step": self.step,
            "provider": self.provider,
            "mode": self.mode,
            "policyKey": self.policy_key,
            "retry": self.retry,
            "maxRetries": self.max_retries,
            "delayMs": self.delay_ms,
            "failure": self.failure.to_wire(),
        }

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> "LlmRetry":
        """Read the event of the log; raises ValueError if it is malformed."""
        return cls(
            _field(data, "retryId", str),
            _field(data, "turn", int),
            _field(data, "step", int),
            _field(data, "provider", str),
            _field(data, "policyKey", str),
            _field(data, "retry", int),
            _field(data, "maxRetries", int),
            _field(data, "delayMs", int),
            failure_from_wire(data.get("failure")),
            _field(data, "mode", str),
        )


@dataclass(frozen=True, slots=True)
class LlmRetryStarted:
    """The wait is over: the next chunks are those of another attempt."""

    retry_id: str
    turn: int
    step: int
    retry: int


def _field(data: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = data.get(key)
    if type(value) is not kind:
        raise ValueError(f"llm/retry: {key!r} must be of type {kind.__name__}, not {value!r:.80}")
    return value


declare_event_type("llm/retry", LlmRetry)
declare_event_type("llm/retry-started", LlmRetryStarted)
