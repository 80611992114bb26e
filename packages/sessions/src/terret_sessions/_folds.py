from collections.abc import Callable
from typing import Any

from ._headers import EpochHeader
from ._payloads import StepEnd, StepStart, TurnEnd, TurnStart
from ._records import RequestContext, RequestHeader


class LogFolds:
    """What a session remembers of its log, kept up to date by each event."""

    __slots__ = ("last_turn", "open_step", "open_turn", "request_context", "request_header")

    def __init__(self) -> None:
        self.open_turn: int | None = None
        self.open_step: int | None = None
        self.last_turn = 0
        self.request_header: EpochHeader | None = None
        self.request_context: RequestContext | None = None

    def _start_turn(self, view: TurnStart) -> None:
        self.open_turn = self.last_turn = view.turn

    def _end_turn(self, view: TurnEnd) -> None:
        self.open_turn = None

    def _start_step(self, view: StepStart) -> None:
        self.open_step = view.step

    def _end_step(self, view: StepEnd) -> None:
        self.open_step = None

    def _take_header(self, view: RequestHeader) -> None:
        self.request_header = view.header

    def _take_context(self, view: RequestContext) -> None:
        self.request_context = view


FOLDS: dict[type, Callable[[LogFolds, Any], None]] = {
    TurnStart: LogFolds._start_turn,
    TurnEnd: LogFolds._end_turn,
    StepStart: LogFolds._start_step,
    StepEnd: LogFolds._end_step,
    RequestHeader: LogFolds._take_header,
    RequestContext: LogFolds._take_context,
}
