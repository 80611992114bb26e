from collections.abc import Mapping
from functools import cache
from typing import TypeVar, cast

T = TypeVar("T")


class Fields:
    """One JSON object with exactly the keys its form allows; raises ValueError for any other.

    Nothing is converted. `maybe_` readers give None for a key that is absent.
    """

    __slots__ = ("_data", "_place")

    def __init__(self, data: object, place: str, *keys: str) -> None:
        if not isinstance(data, dict):
            raise ValueError(f"{place} must be an object, not {type(data).__name__}")
        if not data.keys() <= _as_set(keys):
            unknown = next(key for key in data if key not in keys)
            raise ValueError(f"{place}: unknown key {unknown!r}")
        self._data = data
        self._place = place

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def get(self, key: str) -> object:
        """The value as it is; None if absent."""
        return self._data.get(key)

    def text(self, key: str) -> str:
        return self._exact(key, str)

    def maybe_text(self, key: str) -> str | None:
        return self.text(key) if key in self._data else None

    def items(self, key: str) -> list[object]:
        return self._exact(key, list)

    def maybe_items(self, key: str) -> list[object]:
        """The list; empty if absent."""
        return self.items(key) if key in self._data else []

    def texts(self, key: str) -> tuple[str, ...]:
        texts = self.items(key)
        if not all(type(text) is str for text in texts):
            raise ValueError(f"{self._place}: {key!r} must hold text")
        return tuple(cast("list[str]", texts))

    def mapping(self, key: str) -> dict[str, object]:
        return self._exact(key, dict)

    def count(self, key: str, *, least: int = 0) -> int:
        number = self._exact(key, int)
        if number < least:
            raise ValueError(f"{self._place}: {key!r} must be at least {least}, not {number}")
        return number

    def maybe_count(self, key: str, *, least: int = 0) -> int | None:
        return self.count(key, least=least) if key in self._data else None

    def marker(self, key: str) -> bool:
        """A key that is absent or exactly true."""
        if key in self._data and self._data[key] is not True:
            raise ValueError(f"{self._place}: {key!r} may only be true, not {self._data[key]!r}")
        return key in self._data

    def choice(self, key: str, options: Mapping[str, T]) -> T:
        value = self.text(key)
        if value not in options:
            allowed = ", ".join(options)
            raise ValueError(f"{self._place}: {key!r} must be one of {allowed}, not {value!r}")
        return options[value]

    def _exact(self, key: str, kind: type[T]) -> T:
        value = self._data.get(key)
        if type(value) is not kind:
            wanted = kind.__name__
            raise ValueError(f"{self._place}: {key!r} must be of type {wanted}, not {value!r:.80}")
        return value


@cache
def _as_set(keys: tuple[str, ...]) -> frozenset[str]:
    return frozenset(keys)


def present(**fields: object) -> dict[str, object]:
    """A JSON object of the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}
