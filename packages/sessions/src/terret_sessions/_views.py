from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from typing import Any, Self, TypeVar, overload

from ._chunk_runs import CHUNK, ChunkRun, Slot
from ._events import SessionEvent

T = TypeVar("T")


class ListView(Sequence[T]):
    """A read-only window of a list that only grows; what is added later is not in it.

    It is equal to any view or tuple of equal items.
    """

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
            return self._part(self._window[index])
        return self._at(self._window[index])

    def __iter__(self) -> Iterator[T]:
        window = self._window
        if window.step == 1:  # at the speed of a list: a request goes over all messages
            return iter(self._items[window.start : window.stop])
        return map(self._at, window)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ListView | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # as of a list, it would cost all items

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items)"

    def _part(self, window: range) -> Self:
        return type(self)(self._items, window)

    def _at(self, position: int) -> T:
        item: T = self._items[position]
        return item


class EventsView(ListView[SessionEvent]):
    """A window of a log whose list begins with seq `first`; packed chunks are inflated on read."""

    __slots__ = ("_first",)

    def __init__(self, items: list[Slot], window: range, first: int = 0) -> None:
        super().__init__(items, window)
        self._first = first

    @property
    def is_whole(self) -> bool:
        """Whether it is a log from seq 0 on, without gaps."""
        return not self._first and self._window == range(len(self._window))

    def slots(self) -> list[Slot]:
        """A copy of what stands in the log, if the view is whole."""
        return self._items[: len(self._window)]

    def parts(self) -> Iterator[SessionEvent | tuple[ChunkRun, int, int]]:
        """The events, and runs of them with their first seq and the one behind their last."""
        if self._window.step != 1:
            yield from self
            return
        at, stop = self._window.start, self._window.stop
        while at < stop:
            slot: Slot = self._items[at]
            if isinstance(slot, ChunkRun):
                seq = self._first + at
                at = min(slot.first + len(slot) - self._first, stop)
                yield slot, seq, self._first + at
            else:
                at += 1
                yield slot

    def _part(self, window: range) -> Self:
        return type(self)(self._items, window, self._first)

    def __iter__(self) -> Iterator[SessionEvent]:
        return map(self._at, self._window)

    def _at(self, position: int) -> SessionEvent:
        slot: Slot = self._items[position]
        return slot.event(self._first + position) if isinstance(slot, ChunkRun) else slot


def without_chunks(events: Iterable[SessionEvent]) -> Iterator[SessionEvent]:
    """Goes over the events that are no `assistant/chunk`, which are most of a log.

    Packed chunks are passed over and not unpacked, so this is as fast as the rest is few.
    """
    for part in events.parts() if isinstance(events, EventsView) else events:
        if isinstance(part, SessionEvent) and part.type != CHUNK:
            yield part


def log_of(events: Sequence[SessionEvent], more: Iterable[SessionEvent] = ()) -> EventsView:
    """A log of its own with these events; what is packed stays so."""
    own: list[Slot] = []
    own += events.slots() if isinstance(events, EventsView) and events.is_whole else events
    own.extend(more)
    return EventsView(own, range(len(own)))
