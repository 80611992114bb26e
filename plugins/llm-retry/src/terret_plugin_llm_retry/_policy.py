import random
from dataclasses import astuple
from hashlib import sha256

from terret_llm import LlmFailure, RetryPolicy


def policy_key(policy: RetryPolicy) -> str:
    """A short text that differs for policies that differ."""
    codes, *numbers = astuple(policy)
    return sha256(repr((sorted(codes), numbers)).encode()).hexdigest()[:12]


def delay_ms(policy: RetryPolicy, failure: LlmFailure, retry: int) -> int | None:
    """How long to wait before the `retry`-th repetition, counted from 1; None: do not repeat.

    The wait that the provider asks for is taken as it is, if the policy has room for it. Others
    double from one repetition to the next and are blurred.
    """
    if failure.code not in policy.retryable_codes or retry > policy.max_retries:
        return None
    asked = failure.provider_retry_after_ms
    if asked is not None:
        return asked if asked <= policy.max_delay_ms else None
    ceiling = policy.max_delay_ms
    delay = min(policy.initial_delay_ms << min(retry - 1, 62), ceiling)
    blurred = delay * (1 + policy.jitter_ratio * random.uniform(-1, 1))
    return min(round(blurred), ceiling)
