"""Errors: one base, the builtin that fits, and their subject as attributes."""

import pytest

import terret_context
from terret_context import (
    ApiRangeError,
    AsyncEffectError,
    ConfigError,
    ConfigFault,
    ContextError,
    DuplicateEntryError,
    DuplicateServiceError,
    EventModeError,
    InactiveFiberError,
    InvalidEffectError,
    LifecycleDeadlockError,
    NextCalledTwiceError,
    NotInjectedError,
    NotProvidedError,
    PluginDefinitionError,
    PluginFailedError,
    RestartBudgetError,
    ServiceGoneError,
    ServiceUnavailableError,
    SubjectError,
    TeardownTimeoutError,
    TerretError,
    UnknownEventError,
    WrongThreadError,
    did_you_mean,
)

ERRORS = [
    value
    for name, value in vars(terret_context).items()
    if isinstance(value, type) and issubclass(value, Exception)
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_derives_from_the_one_base(error: type[Exception]) -> None:
    """C-273: all are a `ContextError`, and all are a `TerretError`."""
    assert issubclass(error, TerretError)
    assert issubclass(error, ContextError) or error is TerretError
    assert error.__doc__


@pytest.mark.parametrize(
    ("error", "builtins"),
    [
        (NotInjectedError, (AttributeError, LookupError)),
        (ServiceUnavailableError, (AttributeError, LookupError)),
        (InactiveFiberError, (RuntimeError,)),
        (PluginDefinitionError, (TypeError,)),
        (ConfigError, (ValueError,)),
        (InvalidEffectError, (TypeError,)),
        (AsyncEffectError, (RuntimeError,)),
        (LifecycleDeadlockError, (RuntimeError,)),
        (TeardownTimeoutError, (TimeoutError,)),
        (EventModeError, (TypeError,)),
        (UnknownEventError, (LookupError,)),
        (SubjectError, (TypeError,)),
        (NextCalledTwiceError, (RuntimeError,)),
        (WrongThreadError, (RuntimeError,)),
    ],
)
def test_errors_are_also_the_builtin_that_fits(
    error: type[Exception], builtins: tuple[type[Exception], ...]
) -> None:
    """C-265, C-273: so that `hasattr`, `except TimeoutError` and the like behave."""
    assert all(issubclass(error, builtin) for builtin in builtins)


@pytest.mark.parametrize(
    ("error", "subject"),
    [
        (
            ServiceUnavailableError("llm", "P", "why"),
            {"key": "llm", "plugin": "P", "reason": "why"},
        ),
        (ServiceGoneError("llm", "P"), {"key": "llm", "plugin": "P"}),
        (DuplicateServiceError("llm", "P"), {"key": "llm", "holder": "P"}),
        (NotProvidedError(["a", "b"], "P"), {"keys": ("a", "b"), "plugin": "P"}),
        (InactiveFiberError("x", "P", "ACTIVE"), {"action": "x", "plugin": "P", "state": "ACTIVE"}),
        (ApiRangeError("P", ">2", "1.0"), {"plugin": "P", "wanted": ">2", "present": "1.0"}),
        (AsyncEffectError("L", "P", "part"), {"label": "L", "plugin": "P", "part": "part"}),
        (RestartBudgetError("P", 3, 10, ["a"]), {"plugin": "P", "causes": ("a",)}),
        (TeardownTimeoutError("L", "P", 1), {"label": "L", "plugin": "P"}),
        (DuplicateEntryError("tool", "n", "P"), {"what": "tool", "name": "n", "owner": "P"}),
        (PluginFailedError("P", "loading", KeyError("x")), {"plugin": "P", "part": "loading"}),
    ],
)
def test_errors_have_their_subject_as_attributes(
    error: Exception, subject: dict[str, object]
) -> None:
    """C-273: for code that decides by them."""
    assert {name: getattr(error, name) for name in subject} == subject
    assert "P" in str(error)


def test_a_config_error_lists_every_fault() -> None:
    """C-163: with path, message and nearest key."""
    faults = [
        ConfigFault(("bash", "timout"), "unknown key", ("timeout", "shell")),
        ConfigFault((), "expected a mapping, got text"),
        ConfigFault(("list", 2), "is missing"),
    ]
    error = ConfigError("P", faults)
    assert error.faults == tuple(faults)
    assert str(error) == (
        'P: bash.timout: unknown key (did you mean "timeout"?); '
        "expected a mapping, got text; list.2: is missing"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [("timout", ' (did you mean "timeout"?)'), ("zzz", ""), ("", "")],
)
def test_the_nearest_name_is_proposed_if_there_is_one(name: str, hint: str) -> None:
    """C-275: nothing is proposed that is far off."""
    assert did_you_mean(name, ["timeout", "retries"]) == hint
