from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import final

Item = int | tuple[int, int]


@final
class Sources:
    """The seqs an event derives from: immutable, ascending, unique, kept as ranges.

    Items are seqs or pairs (first, last), both ends included. Neighbours are joined, so equal sets
    are equal objects. Raises ValueError for an item that is reversed, negative or out of order.
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        collector = SourceCollector()
        for item in items:
            first, last = (item, item) if isinstance(item, int) else item
            collector.add_range(first, last)
        self._firsts: tuple[int, ...] = tuple(collector.firsts)
        self._lasts: tuple[int, ...] = tuple(collector.lasts)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Pairs (first, last), both ends included."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    @property
    def last(self) -> int:
        """The highest seq; raises IndexError if there is none."""
        return self._lasts[-1]

    def to_wire(self) -> list[object]:
        """The JSON list of the envelope: seqs, and ranges as [first, last]."""
        return [first if first == last else [first, last] for first, last in self.ranges]

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self._firsts, seq) - 1
        return at >= 0 and seq <= self._lasts[at]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sources):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts

    def __hash__(self) -> int:
        return hash((self._firsts, self._lasts))

    def __repr__(self) -> str:
        return f"Sources({self.to_wire()!r})"


@final
class SourceCollector:
    """Collects ascending seqs as ranges, in constant memory per uninterrupted run."""

    __slots__ = ("firsts", "lasts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []

    def add(self, seq: int) -> None:
        """Add one seq; raises ValueError if it does not come after the last one."""
        if self.lasts and seq == self.lasts[-1] + 1:
            self.lasts[-1] = seq
        else:
            self.add_range(seq, seq)

    def add_range(self, first: int, last: int) -> None:
        """Add `first` to `last`, both included; raises ValueError as `add`, or if reversed."""
        _check_range(first, last)
        if self.lasts and first <= self.lasts[-1]:
            raise ValueError(f"source seq {first} does not come after {self.lasts[-1]}")
        if self.lasts and first == self.lasts[-1] + 1:
            self.lasts[-1] = last
        else:
            self.firsts.append(first)
            self.lasts.append(last)

    def sources(self) -> Sources:
        """What was collected so far."""
        return Sources(zip(self.firsts, self.lasts, strict=True))


def sources_from_wire(data: object) -> Sources:
    """Read the envelope's list; raises ValueError for anything but seqs and [first, last]."""
    if not isinstance(data, list):
        raise ValueError("'sourceEventSeqs' must be a list")
    return Sources(_item(item) for item in data)


def _item(item: object) -> Item:
    if isinstance(item, list):
        if len(item) != 2:
            raise ValueError(f"source range {item!r:.80} must be [first, last]")
        return (item[0], item[1])
    if type(item) is int:
        return item
    raise ValueError(f"source {item!r:.80} must be a seq or [first, last]")


def _check_range(first: object, last: object) -> None:
    if type(first) is not int or type(last) is not int or first < 0:
        raise ValueError(f"source range [{first!r}, {last!r}] must hold seqs")
    if last < first:
        raise ValueError(f"source range [{first}, {last}] is reversed")
