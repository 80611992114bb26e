import math
from dataclasses import dataclass

RETRYABLE_CODES = frozenset({"EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When and how a failed call of one provider may be repeated. Raises ValueError if senseless.

    The delay starts at `initial_delay_ms`, doubles up to `max_delay_ms`, and is blurred by
    `jitter_ratio`. A delay that the provider asks for is used up to `max_delay_ms`.
    """

    retryable_codes: frozenset[str] = RETRYABLE_CODES
    max_retries: int = 5
    initial_delay_ms: int = 500
    max_delay_ms: int = 10_000
    jitter_ratio: float = 0.1

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise ValueError(f"max_retries must not be negative, it is {self.max_retries}")
        if not 0 <= self.initial_delay_ms <= self.max_delay_ms:
            raise ValueError(
                f"initial_delay_ms must be between 0 and max_delay_ms ({self.max_delay_ms}), "
                f"it is {self.initial_delay_ms}"
            )
        if not (math.isfinite(self.jitter_ratio) and 0 <= self.jitter_ratio <= 1):
            raise ValueError(f"jitter_ratio must be between 0 and 1, it is {self.jitter_ratio}")
