from typing import Any

import pytest

from terret_llm import (
    HarnessError,
    LlmError,
    LlmFailure,
    RetryPolicy,
    checked_api_key,
    error_chain,
    failure_from_wire,
    failure_of,
    user_agent,
)


@pytest.mark.parametrize(
    ("failure", "normal"),
    [
        (LlmFailure("a", ""), LlmFailure("a", "UNKNOWN")),
        (LlmFailure("a\ud800", "X"), LlmFailure("a\ufffd", "X")),
        (LlmFailure(7, "X", "429", -1, 3), LlmFailure("7", "X")),  # type: ignore[arg-type]
        ("no failure", LlmFailure("the call failed, and the adapter does not say why", "UNKNOWN")),
    ],
)
def test_a_failure_that_the_log_cannot_hold_is_made_one(failure: Any, normal: LlmFailure) -> None:
    """M-030: malformed failures are normalized."""
    found = failure_of(LlmError(failure) if isinstance(failure, LlmFailure) else broken(failure))
    assert found == normal
    assert failure_from_wire(found.to_wire()) == found


def broken(failure: Any) -> LlmError:
    error = LlmError(LlmFailure("a", "X"))
    error.failure = failure
    return error


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_llm_error_carries_its_failure_and_code() -> None:
    """M-030: LlmError is a HarnessError with the facts of the call."""
    error = LlmError(LlmFailure("busy", "RATE_LIMIT", 429))
    assert isinstance(error, HarnessError)
    assert (error.code, str(error), error.failure.status) == ("RATE_LIMIT", "busy", 429)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (LlmError(LlmFailure("a", "AUTH", 401)), LlmFailure("a", "AUTH", 401)),
        (HarnessError("b", "QUOTA"), LlmFailure("b", "QUOTA")),
        (KeyError("c"), LlmFailure("KeyError: 'c'", "UNKNOWN")),
        (ExceptionGroup("g", [HarnessError("d", "X")]), LlmFailure("d", "X")),
    ],
)
def test_any_error_has_a_failure(error: Exception, failure: LlmFailure) -> None:
    """M-030: own facts, own code, or UNKNOWN; a group of one is its member."""
    assert failure_of(error) == failure


def test_the_chain_names_causes_and_members_and_collapses_repeats() -> None:
    """M-030: explicit causes and contexts are followed, equal lines appear once."""
    group = ExceptionGroup("two", [ValueError("a"), ValueError("a"), TypeError("b")])
    group.__cause__ = OSError("disk")
    assert error_chain(group) == (
        "ExceptionGroup: two (3 sub-exceptions) [ValueError: a; TypeError: b]"
        ": caused by OSError: disk"
    )


def test_the_chain_survives_cycles_and_unreadable_texts() -> None:
    """M-030: rendering an error never raises and always ends."""
    first, second = Unprintable(), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert error_chain(first) == ("Unprintable: (its text cannot be read): caused by ValueError: b")


def test_a_suppressed_context_is_not_shown() -> None:
    error = ValueError("shown")
    error.__context__ = KeyError("hidden")
    error.__suppress_context__ = True
    assert error_chain(error) == "ValueError: shown"


def test_keys_are_trimmed_and_bad_ones_refused_without_being_shown() -> None:
    """M-012: blank and unprintable keys have codes of their own."""
    assert checked_api_key(" sk-abc\n", source="the test") == "sk-abc"
    with pytest.raises(HarnessError, match="from the test is empty") as blank:
        checked_api_key("  ", source="the test")
    with pytest.raises(HarnessError) as unprintable:
        checked_api_key("sk-sécret", source="the test")
    assert blank.value.code == "MISSING_CREDENTIAL"
    assert unprintable.value.code == "INVALID_CREDENTIAL"
    assert "cret" not in str(unprintable.value)


def test_the_user_agent_comes_from_the_metadata() -> None:
    """M-013: name and version of the distribution."""
    assert user_agent("terret-llm").startswith("terret-llm/")


def test_the_retry_policy_has_the_documented_defaults() -> None:
    """M-032: five retries of transient codes, half a second doubled up to ten."""
    policy = RetryPolicy()
    assert (policy.max_retries, policy.initial_delay_ms, policy.max_delay_ms) == (5, 500, 10_000)
    assert "RATE_LIMIT" in policy.retryable_codes
    assert "STREAM_CLOSED" not in policy.retryable_codes


@pytest.mark.parametrize(
    "settings",
    [
        {"max_retries": -1},
        {"initial_delay_ms": -1},
        {"initial_delay_ms": 20_000},
        {"jitter_ratio": float("nan")},
        {"jitter_ratio": 2},
    ],
)
def test_a_senseless_retry_policy_is_refused(settings: dict[str, float]) -> None:
    """M-032: the field is named."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        RetryPolicy(**settings)  # type: ignore[arg-type]  # by name
