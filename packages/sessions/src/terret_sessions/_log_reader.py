from collections.abc import Sequence
from typing import final

from ._chunk_rows import count_lines, run_columns
from ._chunk_runs import ChunkRun, RunKind, Slot, close_run, run_kind
from ._decoding import event_from_json
from ._errors import MisplacedEventError
from ._events import SessionEvent
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
        self._run: ChunkRun | None = None
        self._singly = 0  # up to this seq rows are added one by one

    def add(self, row: bytes) -> None:
        """Add the row of the next event.

        Raises UnreadableRowError if it is no JSON, MisplacedEventError if it has another seq,
        InvalidEventError or LosslessJsonError if it is not of the current form. The log is then as
        it was.
        """
        self._add(event_from_json(row))

    def extend(self, lines: Sequence[bytes]) -> None:
        """Add rows that end with a line break each, as `add` would, but a lot faster.

        At a faulty one, `next_seq` tells how many of them are in the log.
        """
        at = 0
        while at < len(lines):
            taken = 0 if self._run is None else self._continue(self._run, lines, at)
            if not taken:
                self.add(lines[at])
            at += taken or 1

    @property
    def next_seq(self) -> int:
        """The seq of the row that comes next."""
        return self._first + len(self._slots)

    @property
    def events(self) -> Sequence[SessionEvent]:
        """The log up to now, read-only."""
        self._close_run()
        return EventsView(self._slots, range(len(self._slots)), self._first)

    def _add(self, event: SessionEvent) -> None:
        if event.seq != self.next_seq:
            reason = f"seq {event.seq} stands where {self.next_seq} is next"
            raise MisplacedEventError(event.type, reason)
        run, kind = self._run, _plain_kind(event)
        if run is not None and kind == run.kind:
            run.add(event)
            self._slots.append(run)
            return
        self._close_run()
        if kind is not None:
            self._run = ChunkRun(event, kind)
        self._slots.append(self._run or event)

    def _continue(self, run: ChunkRun, lines: Sequence[bytes], at: int) -> int:
        """Add the lines that plainly continue a run; tells how many."""
        seq = self.next_seq
        count = 0 if seq < self._singly else count_lines(run, lines, at, seq)
        if not count:
            return 0
        columns = run_columns(run, list(lines[at : at + count]), seq)
        if columns is None:  # each of them goes the long way, which finds out what is wrong
            self._singly = seq + count
            return 0
        times, texts = columns
        run.times.extend(times)
        run.texts += texts
        self._slots += [run] * count
        return count

    def _close_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            close_run(self._slots, run)


def _plain_kind(event: SessionEvent) -> RunKind | None:
    view = event.view
    if not isinstance(view, AssistantChunk) or event.ignorable:
        return None
    return None if event.surface_op or event.sources is not None else run_kind(view)
