from collections.abc import Iterable, Mapping, Sequence
from time import time_ns

from terret_llm import Message

from ._chunk_runs import ChunkRun, Slot, close_run, run_kind
from ._decoding import event_from_wire, read_payload
from ._errors import InvalidEventError
from ._event_types import event_type
from ._events import SessionEvent, SurfaceOp
from ._folds import FOLDS, LogFolds
from ._headers import EpochHeader
from ._payloads import AssistantChunk
from ._records import RequestContext
from ._sources import Item, Sources
from ._surface import Surface, derived_message
from ._views import EventsView, ListView

Seed = Iterable[SessionEvent | Mapping[str, object]]


class Log:
    """The events of a session in memory, and what follows from them."""

    def __init__(self) -> None:
        self.surface = Surface()
        self._slots: list[Slot] = []
        self._run: ChunkRun | None = None  # at the end of the log
        self._folds = LogFolds()
        self._messages: list[Message] = []
        self._derived = 0  # so many nodes of the surface are in the messages
        self._rewrites = 0

    @property
    def events(self) -> Sequence[SessionEvent]:
        """The log up to now, as a read-only view that does not grow; its index is the seq."""
        return EventsView(self._slots, range(len(self._slots)))

    @property
    def open_turn(self) -> int | None:
        """The number of the turn that is open."""
        return self._folds.open_turn

    @property
    def open_step(self) -> int | None:
        """The number of the step that is open."""
        return self._folds.open_step

    @property
    def last_turn(self) -> int:
        """The number of the turn that began last; 0 before the first."""
        return self._folds.last_turn

    def derive_messages(self) -> Sequence[Message]:
        """What the model sees now, as a read-only view that does not grow: O(new events)."""
        surface = self.surface
        if surface.settled < self._derived:  # the model had seen what was replaced
            self._messages, self._derived = [], 0
            self._rewrites += 1
        for node in surface.nodes[self._derived :]:
            message = derived_message(node)
            if message is not None:
                self._messages.append(message)
        self._derived = surface.settled = len(surface.nodes)
        return ListView(self._messages, range(len(self._messages)))

    @property
    def rewrites(self) -> int:
        """How often `derive_messages` took back messages that it had given before.

        As long as this number stays, what it gave once is the beginning of what it gives now.
        """
        return self._rewrites

    def request_header(self) -> EpochHeader | None:
        """The header in force; None before the first request."""
        return self._folds.request_header

    def request_context(self) -> RequestContext | None:
        """The route in force; None before the first request."""
        return self._folds.request_context

    def _plant(self, seed: Seed) -> None:
        if isinstance(seed, EventsView) and seed.is_whole:
            self._take_over(seed)
            return
        for item in seed:
            event = item if isinstance(item, SessionEvent) else event_from_wire(item)
            expected = len(self._slots)
            if event.seq != expected:
                raise InvalidEventError(event.type, f"seq {expected} is next", seq=event.seq)
            self._commit(event, self.surface.plan(event))

    def _take_over(self, log: EventsView) -> None:
        """Begin with a log whose chunks are packed already, and change nothing but its length."""
        self._slots += log.slots()
        for part in log.parts():
            if isinstance(part, SessionEvent):
                self._fold(part, self.surface.plan(part))

    def _made(
        self,
        type: str,
        data: object,
        surface_op: SurfaceOp | None,
        sources: Sources | Iterable[Item] | None,
        ignorable: bool,
    ) -> SessionEvent:
        seq = len(self._slots)
        declared = event_type(type)
        if declared is not None:
            ignorable = declared.ignorable
        if declared is None or data.__class__ is not declared.payload:
            data = read_payload(type, seq, data, ignorable=ignorable)
        if sources is not None and not isinstance(sources, Sources):
            sources = Sources(sources)
        now = time_ns() // 1_000_000
        return SessionEvent(type, seq, now, data, surface_op, sources, ignorable)

    def _commit(self, event: SessionEvent, place: slice | None) -> None:
        run, view = self._run, event.view
        if isinstance(view, AssistantChunk) and not event.ignorable:
            chunk = view.chunk
            if (
                run is not None
                and chunk.__class__ is run.delta
                and chunk.index == run.index
                and view.step == run.step
                and view.turn == run.turn
            ):
                run.texts.append(chunk.text)
                run.times.append(event.time)
                self._slots.append(run)
            else:
                self._begin_run(event, view)
            return
        if run is not None:
            self._end_run(run)
        self._slots.append(event)
        self._fold(event, place)

    def _begin_run(self, event: SessionEvent, view: AssistantChunk) -> None:
        """Add a chunk to the log that is not plainly the next text of the open run."""
        run, kind = self._run, run_kind(view)
        if run is not None and kind == run.kind:
            run.add(event)
        else:
            if run is not None:
                self._end_run(run)
            run = self._run = None if kind is None else ChunkRun(event, kind)
        self._slots.append(event if run is None else run)

    def _end_run(self, run: ChunkRun) -> None:
        close_run(self._slots, run)
        self._run = None

    def _fold(self, event: SessionEvent, place: slice | None) -> None:
        if place is not None:
            self.surface.commit(event, place)
        fold = FOLDS.get(event.view.__class__)
        if fold is not None:
            fold(self._folds, event.view)
