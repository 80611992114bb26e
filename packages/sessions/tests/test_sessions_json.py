import math
import re
from collections import OrderedDict
from datetime import date
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_sessions import LosslessJsonError, Session, check_json, copy_json

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: str(x) != "-0.0")
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Level(IntEnum):
    LOW = 1


def _containers(value: Any) -> set[int]:
    found, rest = set(), [value]
    while rest:
        each = rest.pop()
        if isinstance(each, list | dict):
            found.add(id(each))
            rest += each.values() if isinstance(each, dict) else each
    return found


@given(json_values)
def test_a_json_value_is_copied_into_containers_of_its_own(value: Any) -> None:
    """S-001, S-002: The vocabulary of JSON is copied, lists and dicts are detached."""
    copy = copy_json(value)

    assert copy == value
    assert not _containers(copy) & _containers(value)
    assert check_json(value) is value


@pytest.mark.parametrize(
    ("value", "pointer", "reason"),
    [
        ({"a": [1, math.nan]}, "/a/1", "not finite"),
        ({"a": math.inf}, "/a", "not finite"),
        ([-0.0], "/0", "-0.0"),
        ({"a": 2**53}, "/a", "2**53-1"),
        ({"a": b"x"}, "/a", "bytes"),
        ({"a/b": {"c~d": {1, 2}}}, "/a~1b/c~0d", "set"),
        ([date(2026, 1, 1)], "/0", "date"),
        ({"a": {1: "x"}}, "/a/1", "not text"),
        ([OrderedDict(a=1)], "/0", "OrderedDict"),
        ([Level.LOW], "/0", "Level"),
        (["ok", "\ud800"], "/1", "surrogate"),
        ({"\udfff": 1}, "/\udfff", "surrogate"),
        (object(), "", "object"),
    ],
)
def test_what_json_would_lose_is_refused_with_its_pointer(
    value: Any, pointer: str, reason: str
) -> None:
    """S-001, S-005: Anything else is refused, and the pointer leads to it."""
    for walk in (copy_json, check_json):
        with pytest.raises(LosslessJsonError, match=re.escape(reason)) as caught:
            walk(value)
        assert caught.value.pointer == pointer


def test_tuples_become_lists_and_shared_parts_are_fine() -> None:
    """S-002, S-005: A part may stand in two places."""
    shared = {"x": (1, 2)}

    copy = copy_json([shared, shared])

    assert copy == [{"x": [1, 2]}, {"x": [1, 2]}]
    assert copy[0] is not copy[1]


def test_a_value_that_contains_itself_is_refused() -> None:
    """S-005: Cycles are refused at the place where they close."""
    value: dict[str, Any] = {"list": [0]}
    value["list"].append(value)

    with pytest.raises(LosslessJsonError, match="contains itself") as caught:
        copy_json(value)

    assert caught.value.pointer == "/list/1"


def test_input_of_any_depth_is_walked_without_recursion() -> None:
    """S-004: A hundred thousand levels are no problem for the walk."""
    value: Any = 1
    for _ in range(100_000):
        value = [value]

    copy = copy_json(value)

    depth = 0
    while isinstance(copy, list):
        (copy,) = copy
        depth += 1
    assert (depth, copy) == (100_000, 1)


def test_what_could_not_be_read_back_is_refused_at_the_append() -> None:
    """S-004: A row nested too deep for the reader never gets into the log."""
    value: Any = 1
    for _ in range(500):
        value = [value]
    session = Session()

    with pytest.raises(LosslessJsonError, match="levels deep"):
        session.append("test/deep", {"value": value}, ignorable=True)

    assert len(session.events) == 0


def test_each_value_is_read_once() -> None:
    """S-003: What was validated is what is stored, whatever happens to the input afterwards."""
    inner = [1]
    copy = copy_json({"inner": inner})
    inner[0] = math.nan  # type: ignore[call-overload]  # the point of the test

    assert copy == {"inner": [1]}
