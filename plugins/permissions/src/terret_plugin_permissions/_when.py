"""Comparisons of the arguments of a call with values of a rule."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from terret_context import Config

from ._commands import all_commands, any_command

Op: TypeAlias = Literal[
    "eq", "ne", "gt", "gte", "lt", "lte", "in", "contains", "exists", "allCommands", "anyCommand"
]  # fmt: skip


class Comparison(Config):
    """One condition of a rule: the argument at `field` compared with `value`."""

    field: str = Field(min_length=1)
    """Dotted path into the arguments."""
    op: Op
    """How they are compared; an absent argument and unlike types never hold, but for `exists`."""
    value: Any
    """What the argument is compared with."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        listed = ("in", "allCommands", "anyCommand")
        if self.op in listed and not isinstance(self.value, list | tuple):
            raise ValueError(f"the value of `{self.op}` is a list")
        if self.op == "exists" and not isinstance(self.value, bool):
            raise ValueError("the value of `exists` is true or false")
        return self

    def holds(self, arguments: object) -> bool:
        """Whether the condition holds for the arguments of a call."""
        found = _at(arguments, self.field)
        if self.op == "exists":
            return (found is not _MISSING) is self.value
        return found is not _MISSING and _OPS[self.op](found, self.value)


_MISSING: Final = object()


def _at(value: object, path: str) -> object:
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return _MISSING
        value = value[key]
    return value


def _kind(value: object) -> type:
    """One type for all values that can be compared with each other."""
    if isinstance(value, bool) or value is None:
        return type(value)
    if isinstance(value, int | float):
        return float
    if isinstance(value, list | tuple):
        return list
    return dict if isinstance(value, Mapping) else type(value)


def _equal(left: object, right: object) -> bool:
    if _kind(left) is not _kind(right):
        return False
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    return left == right


def _differs(left: object, right: object) -> bool:
    return _kind(left) is _kind(right) and not _equal(left, right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[object, object], bool]:
    def holds(left: object, right: object) -> bool:
        kind = _kind(left)
        return kind in (float, str) and kind is _kind(right) and compare(left, right)

    return holds


def _among(left: object, right: object) -> bool:
    return isinstance(right, list | tuple) and any(_equal(left, each) for each in right)


def _contains(left: object, right: object) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return _among(right, left)


_OPS: Final[dict[str, Callable[[object, object], bool]]] = {
    "eq": _equal,
    "ne": _differs,
    "gt": _ordered(lambda left, right: left > right),
    "gte": _ordered(lambda left, right: left >= right),
    "lt": _ordered(lambda left, right: left < right),
    "lte": _ordered(lambda left, right: left <= right),
    "in": _among,
    "contains": _contains,
    "allCommands": all_commands,
    "anyCommand": any_command,
}
