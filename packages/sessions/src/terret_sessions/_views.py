from collections.abc import Iterator, Sequence
from typing import Any, Self, TypeVar, overload

from ._events import SessionEvent
from ._packing import PackedRun, Slot

T = TypeVar("T")


class ListView(Sequence[T]):
    """A read-only window of a list that only grows; what is added later is not in it."""

    __slots__ = ("_items", "_window")

    def __init__(self, items: list[Any], window: range) -> None:
        self._items = items
        self._window = window

    def __len__(self) -> int:
        return len(self._window)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> T | Self:
        if isinstance(index, slice):
            return type(self)(self._items, self._window[index])
        return self._at(self._window[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._at, self._window)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items)"

    def _at(self, position: int) -> T:
        item: T = self._items[position]
        return item


class EventsView(ListView[SessionEvent]):
    """A window of a log; packed chunks are inflated as they are read."""

    __slots__ = ()

    def _at(self, position: int) -> SessionEvent:
        slot: Slot = self._items[position]
        return slot.event(position) if isinstance(slot, PackedRun) else slot
