from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, cast

from terret_llm import Chunk, ReasoningDelta, TextDelta, ToolCallDelta

from ._events import SessionEvent
from ._payloads import AssistantChunk

MIN_RUN: Final = 3


class PackedRun:
    """Neighbouring chunk events that differ in time and text only, as columns.

    A log holds the one run in the place of each of its events and inflates those that are read.
    """

    __slots__ = ("_ends", "_first", "_sample", "_text", "_times")

    def __init__(
        self, first: int, sample: AssistantChunk, texts: Sequence[str], times: Iterable[int]
    ) -> None:
        self._first = first
        self._sample = sample
        self._text = "".join(texts)
        self._ends = array("I", accumulate(map(len, texts)))
        self._times = array("q", times)

    def event(self, seq: int) -> SessionEvent:
        """The event at `seq`, equal to the one that was packed."""
        at = seq - self._first
        text = self._text[self._ends[at - 1] if at else 0 : self._ends[at]]
        sample = self._sample
        view = AssistantChunk(sample.turn, sample.step, _with_text(sample.chunk, text))
        return SessionEvent("assistant/chunk", seq, self._times[at], view)


Slot = SessionEvent | PackedRun
RunKind = tuple[object, ...]


def pack_runs(slots: list[Slot], start: int) -> None:
    """Fold each run of chunk events from `start` on into one packed node, in place.

    A run is of one step, one kind of delta and one block, and at least three events long.
    """
    position, count = start, len(slots)
    while position < count:
        end = _run_end(slots, position, count)
        if end - position >= MIN_RUN:
            slots[position:end] = [_packed(cast("list[SessionEvent]", slots[position:end]))] * (
                end - position
            )
        position = end


def run_kind(view: AssistantChunk) -> RunKind | None:
    """What the events of a run have in common; None for a chunk that stays single."""
    match view.chunk:
        case TextDelta(index) | ReasoningDelta(index):
            return (view.turn, view.step, view.chunk.__class__, index)
        case ToolCallDelta(index, call_id, name):
            return (view.turn, view.step, ToolCallDelta, index, call_id, name)
        case _:
            return None


def delta_text(chunk: Chunk) -> str:
    """The text in which the chunks of a run differ."""
    if isinstance(chunk, ToolCallDelta):
        return chunk.arguments_delta
    assert isinstance(chunk, TextDelta | ReasoningDelta)
    return chunk.text


def _run_end(slots: list[Slot], start: int, count: int) -> int:
    kind = _kind(slots[start])
    end = start + 1
    if kind is not None:
        while end < count and _kind(slots[end]) == kind:
            end += 1
    return end


def _kind(slot: Slot) -> RunKind | None:
    view = slot.view if isinstance(slot, SessionEvent) else None
    return run_kind(view) if isinstance(view, AssistantChunk) else None


def _packed(events: list[SessionEvent]) -> PackedRun:
    views = [cast("AssistantChunk", event.view) for event in events]
    texts = [delta_text(view.chunk) for view in views]
    return PackedRun(events[0].seq, views[0], texts, [event.time for event in events])


def _with_text(sample: Chunk, text: str) -> Chunk:
    match sample:
        case ToolCallDelta(index, call_id, name):
            return ToolCallDelta(index, call_id, name, text)
        case ReasoningDelta(index):
            return ReasoningDelta(index, text)
        case TextDelta(index):
            return TextDelta(index, text)
    raise AssertionError(sample)
