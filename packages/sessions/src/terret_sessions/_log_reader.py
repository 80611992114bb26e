from collections.abc import Sequence
from typing import Final, final

from pydantic_core import from_json

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

    def add(self, row: bytes) -> None:
        """Add the row of the next event.

        Raises UnreadableRowError if it is no JSON, MisplacedEventError if it has another seq,
        InvalidEventError or LosslessJsonError if it is not of the current form. The log is then as
        it was.
        """
        run = self._run
        if run is not None and _takes(run, row, self._first + len(self._slots)):
            self._slots.append(run)
        else:
            self._add(event_from_json(row))

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
        run, kind = self._run, _plain_kind(event)
        if run is not None and kind == run.kind:
            run.add(event)
            self._slots.append(run)
            return
        self._close_run()
        if kind is not None:
            self._run = ChunkRun(event, kind)
        self._slots.append(self._run or event)

    def _close_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            close_run(self._slots, run)


def _takes(run: ChunkRun, row: bytes, seq: int) -> bool:
    """Add the row of `seq` to a run if it is, to the byte, the row of its next text.

    That is most of a log, and parsing the text alone saves half of the time. Whatever looks
    different goes the long way, which also finds out what is wrong with it.
    """
    lead, head = b'{"type":"assistant/chunk","seq":%d,"time":' % seq, run.head
    start = len(lead)
    stop = start + _TIME_DIGITS
    if not (row.startswith(lead) and row.startswith(head, stop) and row.endswith(b"}}}")):
        return False
    time = row[start:stop]
    try:
        text = from_json(row[stop + len(head) : -3])
    except ValueError:
        return False
    if text.__class__ is not str or not time.isdigit() or time.startswith(b"0"):
        return False
    run.texts.append(text)
    run.times.append(int(time))
    return True


def _plain_kind(event: SessionEvent) -> RunKind | None:
    view = event.view
    if not isinstance(view, AssistantChunk) or event.ignorable:
        return None
    return None if event.surface_op or event.sources is not None else run_kind(view)


_TIME_DIGITS: Final = 13  # of epoch milliseconds between 2001 and 2286
