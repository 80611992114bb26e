"""What the log accepts of retry events, and how long waits are."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import LlmFailure, RetryPolicy
from terret_plugin_llm_retry import LlmRetry, LlmRetryStarted
from terret_plugin_llm_retry._policy import delay_ms, policy_key
from terret_plugin_llm_retry._rules import RetryRuleError, check_retries
from terret_sessions import Session, StepStart, TurnStart, event_from_wire

SERVER = LlmFailure("down", "SERVER")


def retry(number: int = 1, **fields: Any) -> LlmRetry:
    plain = LlmRetry("r", 1, 1, "p", "k", number, 5, 0, SERVER)
    return replace(plain, **fields)


def started(number: int = 1, id: str = "r") -> LlmRetryStarted:
    return LlmRetryStarted(id, 1, 1, number)


def log(*views: Any) -> Session:
    """A session with an open step and these events, each checked before it is appended."""
    session = Session()
    for view in (TurnStart(1), StepStart(1, 1), *views):
        name = {
            TurnStart: "turn/start",
            StepStart: "step/start",
            LlmRetry: "llm/retry",
            LlmRetryStarted: "llm/retry-started",
        }[type(view)]
        probe = Session(seed=session.events)
        event = probe.append(name, view)
        check_retries(session, event)
        session.append(name, view)
    return session


def test_a_chain_in_its_order_is_accepted() -> None:
    """M-051: also two chains side by side."""
    other: Any = {"retry_id": "s", "provider": "q"}
    log(retry(1), started(1), retry(1, **other), started(1, "s"), retry(2), started(2))


@pytest.mark.parametrize(
    ("views", "reason"),
    [
        ([retry(2)], "retry 1 of its chain is next, not 2"),
        ([retry(1), retry(1)], "retry 2 of its chain is next, not 1"),
        ([retry(1, step=2)], "open step"),
        ([retry(1, turn=2)], "open step"),
        ([retry(1), retry(2, provider="q")], "its chain belongs to 'p'"),
        ([started(1)], "no retry waits"),
        ([retry(1), started(2)], "no retry waits"),
        ([retry(1), started(1), started(1)], "no retry waits"),
        ([retry(1), started(1, "s")], "no retry waits"),
    ],
)
def test_what_does_not_fit_the_log_is_refused(views: list[Any], reason: str) -> None:
    """M-051: inside the open step, numbered, one id and one provider a chain, starts correlate."""
    with pytest.raises(RetryRuleError, match=reason):
        log(*views)


@pytest.mark.parametrize("key", ["retryId", "turn", "delayMs", "failure", "mode"])
def test_a_stored_event_without_one_of_its_facts_is_refused(key: str) -> None:
    """M-049: naming the fact."""
    data = retry().to_wire()
    del data[key]
    wire = {"type": "llm/retry", "seq": 0, "time": 0, "data": data}
    with pytest.raises(ValueError, match="failure" if key == "failure" else key):
        event_from_wire(wire).view  # noqa: B018  # read once


policies = st.builds(
    lambda start, extra, jitter, retries: RetryPolicy(
        initial_delay_ms=start,
        max_delay_ms=start + extra,
        jitter_ratio=jitter,
        max_retries=retries,
    ),
    st.integers(0, 100_000),
    st.integers(0, 100_000),
    st.floats(0, 1),
    st.integers(0, 100),
)


@given(policies, st.integers(1, 100))
def test_waits_double_within_their_bounds(policy: RetryPolicy, number: int) -> None:
    """M-043: from zero to the ceiling, blurred, and never beyond the budget."""
    delay = delay_ms(policy, SERVER, number)
    if number > policy.max_retries:
        assert delay is None
        return
    plain = min(policy.initial_delay_ms * 2 ** (number - 1), policy.max_delay_ms)
    assert delay is not None
    blur = plain * policy.jitter_ratio + 1
    assert max(0, plain - blur) <= delay <= min(plain + blur, policy.max_delay_ms)


@given(policies, st.integers(0, 300_000))
def test_the_providers_wait_is_exact_or_refused(policy: RetryPolicy, asked: int) -> None:
    """M-044: no jitter on it."""
    failure = LlmFailure("slow", "RATE_LIMIT", 429, asked)
    fits = asked <= policy.max_delay_ms and policy.max_retries > 0
    assert delay_ms(policy, failure, 1) == (asked if fits else None)


def test_the_key_of_a_policy_tells_policies_apart() -> None:
    """M-045: equal ones have equal keys, whatever the order of their codes."""
    one = RetryPolicy(retryable_codes=frozenset({"A", "B"}))
    same = RetryPolicy(retryable_codes=frozenset({"B", "A"}))
    assert policy_key(one) == policy_key(same)
    others = [RetryPolicy(), RetryPolicy(max_retries=4), RetryPolicy(jitter_ratio=0.2), one]
    assert len({policy_key(each) for each in others}) == 4
