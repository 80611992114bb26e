from collections.abc import Sequence

from terret_llm import create_tool_result_message

from ._events import SessionEvent, SurfaceOp
from ._last_turn import last_turn
from ._payloads import ErrorInfo, StepEnd, ToolResult, TurnEnd, TurnStart
from ._progress import TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN, LogProgress, OpenCall
from ._reasons import Interrupted
from ._sources import Sources


def repair_closers(events: Sequence[SessionEvent]) -> tuple[SessionEvent, ...]:
    """The events that close the last turn of a log, if it is open; nothing else is touched.

    Each call of the open step without result gets one: TOOL_NOT_STARTED if its body cannot have
    begun, else TOOL_OUTCOME_UNKNOWN. They carry the time of the last event, and the same log always
    gives the same closers.
    """
    turn = last_turn(reversed(events))
    if turn is None or turn.end is not None:
        return ()
    progress = LogProgress()
    for event in events[_start_of(turn.number, events) :]:
        progress.advance(event)
    if not progress.turn_open:
        return ()
    closers = _Closers(events[-1])
    if progress.step_open:
        for call_id, call in progress.calls.items():
            closers.answer(progress, call_id, call)
        closers.add("step/end", StepEnd(progress.turn, progress.step))
    closers.add("turn/end", TurnEnd(progress.turn, Interrupted()))
    return tuple(closers.events)


def _start_of(turn: int, events: Sequence[SessionEvent]) -> int:
    for at in reversed(range(len(events))):
        if events[at].view == TurnStart(turn):
            return at
    return 0


class _Closers:
    def __init__(self, last: SessionEvent) -> None:
        self.events: list[SessionEvent] = []
        self._next = last.seq + 1
        self._time = last.time

    def add(
        self,
        type: str,
        view: object,
        surface_op: SurfaceOp | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.events.append(SessionEvent(type, self._next, self._time, view, surface_op, sources))
        self._next += 1

    def answer(self, progress: LogProgress, call_id: str, call: OpenCall) -> None:
        started = call.seq is not None and call.allowed
        message = create_tool_result_message(
            call_id,
            _UNKNOWN if started else _NOT_STARTED,
            is_error=True,
            id=f"repair-{call_id}-{self._next}",
        )
        code = TOOL_OUTCOME_UNKNOWN if started else TOOL_NOT_STARTED
        view = ToolResult(progress.turn, progress.step, message, ErrorInfo("Interrupted", code))
        sources = None if call.seq is None else Sources([call.seq])
        self.add("tool/result", view, "append", sources)


_NOT_STARTED = "Error: the process ended before this tool was started; it did not run."
_UNKNOWN = (
    "Error: the process ended while this tool was running. Whether it took effect is unknown:"
    " judge from its purpose whether it is safe to run it again, and check first if you can."
)
