from array import array
from collections.abc import Sequence
from itertools import accumulate, groupby
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

    def __init__(self, events: Sequence[SessionEvent]) -> None:
        views = [cast("AssistantChunk", event.view) for event in events]
        texts = [_text_of(view.chunk) for view in views]
        self._first = events[0].seq
        self._sample = views[0]
        self._text = "".join(texts)
        self._ends = array("I", accumulate(map(len, texts)))
        self._times = array("q", [event.time for event in events])

    def event(self, seq: int) -> SessionEvent:
        """The event at `seq`, equal to the one that was packed."""
        at = seq - self._first
        text = self._text[self._ends[at - 1] if at else 0 : self._ends[at]]
        sample = self._sample
        view = AssistantChunk(sample.turn, sample.step, _with_text(sample.chunk, text))
        return SessionEvent("assistant/chunk", seq, self._times[at], view)


Slot = SessionEvent | PackedRun


def pack_runs(slots: list[Slot], start: int) -> None:
    """Fold each run of chunk events from `start` on into one packed node, in place.

    A run is of one step, one kind of delta and one block, and at least three events long.
    """
    position = start
    for kind, group in groupby(slots[start:], _kind):
        run = cast("list[SessionEvent]", list(group))
        end = position + len(run)
        if kind is not None and len(run) >= MIN_RUN:
            slots[position:end] = [PackedRun(run)] * len(run)
        position = end


def _kind(slot: Slot) -> tuple[object, ...] | None:
    """What the events of a run have in common; None for an event that stays single."""
    view = slot.view if isinstance(slot, SessionEvent) else None
    if not isinstance(view, AssistantChunk):
        return None
    match view.chunk:
        case TextDelta(index) | ReasoningDelta(index):
            return (view.turn, view.step, type(view.chunk), index)
        case ToolCallDelta(index, call_id, name):
            return (view.turn, view.step, ToolCallDelta, index, call_id, name)
        case _:
            return None


def _text_of(chunk: Chunk) -> str:
    if isinstance(chunk, ToolCallDelta):
        return chunk.arguments_delta
    assert isinstance(chunk, TextDelta | ReasoningDelta)
    return chunk.text


def _with_text(sample: Chunk, text: str) -> Chunk:
    match sample:
        case ToolCallDelta(index, call_id, name):
            return ToolCallDelta(index, call_id, name, text)
        case ReasoningDelta(index):
            return ReasoningDelta(index, text)
        case TextDelta(index):
            return TextDelta(index, text)
    raise AssertionError(sample)
