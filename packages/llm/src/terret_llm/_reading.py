"""Reading JSON objects of the log: exact keys, exact types, no coercion."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def as_object(value: object, place: str) -> Mapping[str, object]:
    if type(value) is not dict and not isinstance(value, Mapping):  # asking the ABC takes long
        raise ValueError(f"{place} must be an object, not {type(value).__name__}")
    return value


def required(data: Mapping[str, object], key: str, kind: type[T], place: str) -> T:
    value = data.get(key)
    if type(value) is not kind:
        raise ValueError(f"{place}: {key!r} must be of type {kind.__name__}, not {value!r:.80}")
    return value


def optional(data: Mapping[str, object], key: str, kind: type[T], place: str) -> T | None:
    return None if key not in data else required(data, key, kind, place)


def optional_number(data: Mapping[str, object], key: str, place: str) -> float | None:
    value = data.get(key)
    if value is None and key not in data:
        return None
    if type(value) is not int and type(value) is not float:
        raise ValueError(f"{place}: {key!r} must be a number, not {value!r:.80}")
    return value


def only(data: Mapping[str, object], allowed: frozenset[str], place: str) -> None:
    if not allowed.issuperset(data):
        unknown = ", ".join(sorted(str(key) for key in data if key not in allowed))
        raise ValueError(f"{place} has unknown keys: {unknown}")
