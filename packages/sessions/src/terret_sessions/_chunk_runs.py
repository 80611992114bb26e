from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, cast

from terret_llm import Chunk, ReasoningDelta, TextDelta, ToolCallDelta, chunk_json

from ._events import SessionEvent
from ._payloads import AssistantChunk

CHUNK: Final = "assistant/chunk"
MIN_RUN: Final = 3

RunKind = tuple[object, ...]


class ChunkRun:
    """Neighbouring chunk events that differ in time and text only, as columns.

    A log holds the one run in the place of each of its events and inflates those that are read.
    While the run is open, texts and times are added to its columns.
    """

    __slots__ = (
        "_ends",
        "_head",
        "_text",
        "delta",
        "first",
        "index",
        "kind",
        "sample",
        "step",
        "texts",
        "times",
        "turn",
    )

    def __init__(self, event: SessionEvent, kind: RunKind) -> None:
        view = cast("AssistantChunk", event.view)
        chunk = view.chunk
        self.first = event.seq
        self.kind = kind
        self.sample = view
        self.turn, self.step = view.turn, view.step
        self.delta, self.index = None, 0  # of a run of plain text, which is told apart quickly
        if isinstance(chunk, TextDelta | ReasoningDelta):
            self.delta, self.index = chunk.__class__, chunk.index
        self.texts = [_text_of(chunk)]
        self.times: list[int] | array[int] = [event.time]
        self._text: str | None = None
        self._head: bytes | None = None
        self._ends = array("I")

    def __len__(self) -> int:
        return len(self.times)

    def add(self, event: SessionEvent) -> None:
        """Add the next event, which is of this kind."""
        self.texts.append(_text_of(cast("AssistantChunk", event.view).chunk))
        self.times.append(event.time)

    def close(self) -> None:
        """Join the texts: nothing is added any more."""
        self._text = "".join(self.texts)
        self.times = array("q", self.times)
        self._ends = array("I", accumulate(map(len, self.texts)))
        self.texts = []
        self._head = None

    def event(self, seq: int) -> SessionEvent:
        """The event at `seq`, equal to the one that was added."""
        at = seq - self.first
        sample = self.sample
        view = AssistantChunk(sample.turn, sample.step, _with_text(sample.chunk, self.text(at)))
        return SessionEvent(CHUNK, seq, self.times[at], view)

    def columns(self, first: int, stop: int) -> tuple[list[str], Sequence[int]]:
        """Texts and times of the events from seq `first` to before `stop`."""
        start, end = first - self.first, stop - self.first
        if self._text is None:
            return self.texts[start:end], self.times[start:end]
        ends = self._ends[start:end].tolist()
        begins = (self._ends[start - 1] if start else 0, *ends)
        text = self._text
        texts = [text[begin:stop] for begin, stop in zip(begins, ends, strict=False)]
        return texts, self.times[start:end]

    @property
    def head(self) -> bytes:
        """What stands in the rows of the run between the time and the text."""
        if self._head is None:
            chunk = chunk_json(_with_text(self.sample.chunk, "")).removesuffix('""}')
            row = f',"data":{{"turn":{self.turn},"step":{self.step},"chunk":{chunk}'
            self._head = row.encode()
        return self._head

    def text(self, at: int) -> str:
        """The text of the event at a place of the run."""
        if self._text is None:
            return self.texts[at]
        return self._text[self._ends[at - 1] if at else 0 : self._ends[at]]


Slot = SessionEvent | ChunkRun


def close_run(slots: list[Slot], run: ChunkRun) -> None:
    """Close the run at the end of a log; a short one becomes single events."""
    run.close()
    if len(run) < MIN_RUN:
        slots[-len(run) :] = [run.event(run.first + at) for at in range(len(run))]


def run_kind(view: AssistantChunk) -> RunKind | None:
    """What the events of a run have in common; None for a chunk that stays single."""
    match view.chunk:
        case TextDelta(index) | ReasoningDelta(index):
            return (view.turn, view.step, view.chunk.__class__, index)
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
