from collections.abc import Callable
from typing import Any

from ._headers import EpochHeader
from ._packing import Slot, pack_runs
from ._payloads import AssistantMessage, StepEnd, StepStart, TurnEnd, TurnStart
from ._records import RequestContext, RequestHeader


class LogFolds:
    """What a session remembers of its log, kept up to date by each event."""

    __slots__ = (
        "_packed_to",
        "_slots",
        "last_turn",
        "open_step",
        "open_turn",
        "request_context",
        "request_header",
    )

    def __init__(self, slots: list[Slot]) -> None:
        self._slots = slots
        self._packed_to = 0
        self.open_turn: int | None = None
        self.open_step: int | None = None
        self.last_turn = 0
        self.request_header: EpochHeader | None = None
        self.request_context: RequestContext | None = None

    def leave_packed(self) -> None:
        """What is in the log by now is packed, as far as it can be."""
        self._packed_to = len(self._slots)

    def take(self, view: object) -> None:
        """Fold the payload of the event that was committed last."""
        fold = FOLDS.get(view.__class__)
        if fold is not None:
            fold(self, view)

    def _start_turn(self, view: TurnStart) -> None:
        self.open_turn = self.last_turn = view.turn

    def _end_turn(self, view: TurnEnd) -> None:
        self.open_turn = None

    def _start_step(self, view: StepStart) -> None:
        self.open_step = view.step

    def _end_step(self, view: StepEnd) -> None:
        self.open_step = None
        self._pack(view)

    def _take_header(self, view: RequestHeader) -> None:
        self.request_header = view.header

    def _take_context(self, view: RequestContext) -> None:
        self.request_context = view

    def _pack(self, view: AssistantMessage | StepEnd) -> None:
        pack_runs(self._slots, self._packed_to)
        self._packed_to = len(self._slots)


FOLDS: dict[type, Callable[[LogFolds, Any], None]] = {
    TurnStart: LogFolds._start_turn,
    TurnEnd: LogFolds._end_turn,
    StepStart: LogFolds._start_step,
    StepEnd: LogFolds._end_step,
    RequestHeader: LogFolds._take_header,
    RequestContext: LogFolds._take_context,
    AssistantMessage: LogFolds._pack,
}
