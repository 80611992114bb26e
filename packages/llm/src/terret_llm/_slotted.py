"""One decorator for the values of the hot path."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def slotted(cls: type[T]) -> type[T]:
    """Make `cls` a slotted dataclass that is read-only to type checkers.

    Construction costs a plain assignment per field, where a frozen dataclass pays for a checked
    one. Values are trusted: their fields hold tuples, and nobody assigns to them.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
