from collections.abc import Sequence
from typing import Any, final

from pydantic_core import from_json

from terret_llm import ReasoningDelta, TextDelta

from ._decoding import parse_row, read_event
from ._errors import MisplacedEventError
from ._events import SessionEvent
from ._json import MAX_INT
from ._packing import MIN_RUN, PackedRun, RunKind, Slot, delta_text, run_kind
from ._payloads import AssistantChunk
from ._views import EventsView


@final
class LogReader:
    """Makes a log, or its end, of stored rows, which are added in order from seq `first` on.

    Runs of chunks are packed as they come, so that a long log takes no more room than in a session.
    """

    def __init__(self, first: int = 0) -> None:
        self._slots: list[Slot] = []
        self._first = first
        self._run: _Run | None = None

    def add(self, row: bytes | str) -> None:
        """Add the row of the next event.

        Raises UnreadableRowError if it is no JSON, MisplacedEventError if it has another seq,
        InvalidEventError or LosslessJsonError if it is not of the current form. The log is then as
        it was.
        """
        try:
            data = from_json(row)
        except ValueError:
            data = parse_row(row)
        run = self._run
        if run is not None and run.takes(data, self._first + len(self._slots)):
            self._slots.append(run.first)  # holds the place until the run is packed
        else:
            self._add(read_event(data))

    @property
    def events(self) -> Sequence[SessionEvent]:
        """The log up to now, read-only."""
        self._close_run()
        return EventsView(self._slots, range(len(self._slots)), self._first)

    def _add(self, event: SessionEvent) -> None:
        seq = self._first + len(self._slots)
        if event.seq != seq:
            reason = f"seq {event.seq} stands where {seq} is next"
            raise MisplacedEventError(event.type, reason)
        kind = _kind(event)
        if self._run is not None and kind != self._run.kind:
            self._close_run()
        if kind is not None:
            if self._run is None:
                self._run = _Run(event, kind)
            self._run.add(event)
        self._slots.append(event)

    def _close_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            start = run.first.seq - self._first
            self._slots[start:] = run.slots(len(self._slots) - start)


class _Run:
    """Chunk events, one after the other, that differ in time and text only."""

    __slots__ = ("_index", "_sample", "_texts", "_times", "_type", "first", "kind")

    def __init__(self, first: SessionEvent, kind: RunKind) -> None:
        assert isinstance(first.view, AssistantChunk)
        self.first = first
        self.kind = kind
        self._sample = first.view
        self._texts: list[str] = []
        self._times: list[int] = []
        chunk = first.view.chunk
        self._type, self._index = (
            (chunk.type, chunk.index) if isinstance(chunk, TextDelta | ReasoningDelta) else ("", 0)
        )

    def takes(self, row: Any, seq: int) -> bool:
        """Take the parsed row of `seq` if it is plainly the next text of the run.

        The short way for what a log has most of. Whatever is not exactly of this form goes the long
        one, which also finds out what is wrong with it.
        """
        try:
            data = row["data"]
            chunk, time = data["chunk"], row["time"]
            turn, step, index, text = data["turn"], data["step"], chunk["index"], chunk["text"]
            if not (
                row["type"] == "assistant/chunk"
                and chunk["type"] == self._type
                and len(row) == 4
                and len(data) == len(chunk) == 3
                and row["seq"] == seq
                and turn == self._sample.turn
                and step == self._sample.step
                and index == self._index
                and text.__class__ is str
                and row["seq"].__class__
                is turn.__class__
                is step.__class__
                is index.__class__
                is time.__class__
                is int
                and 0 <= time <= MAX_INT
            ):
                return False
        except (KeyError, TypeError):
            return False
        self._texts.append(text)
        self._times.append(time)
        return True

    def add(self, event: SessionEvent) -> None:
        assert isinstance(event.view, AssistantChunk)
        self._texts.append(delta_text(event.view.chunk))
        self._times.append(event.time)

    def slots(self, count: int) -> list[Slot]:
        run = PackedRun(self.first.seq, self._sample, self._texts, self._times)
        if count >= MIN_RUN:
            return [run] * count
        return [run.event(self.first.seq + at) for at in range(count)]


def _kind(event: SessionEvent) -> RunKind | None:
    view = event.view
    if not isinstance(view, AssistantChunk) or event.ignorable:
        return None
    return None if event.surface_op or event.sources is not None else run_kind(view)
