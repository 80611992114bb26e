from collections.abc import Callable, Mapping
from typing import Any

from ._events import SessionEvent
from ._payloads import (
    AssistantChunk,
    AssistantMessage,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from ._records import RequestContext, RequestHeader, TodoWrite
from ._surface import is_replacement

StepBound = AssistantChunk | AssistantMessage | ToolCall | ToolResult

TOOL_NOT_STARTED = "TOOL_NOT_STARTED"
TOOL_OUTCOME_UNKNOWN = "TOOL_OUTCOME_UNKNOWN"


class OpenCall:
    """A tool call of the open step that has no result yet."""

    __slots__ = ("allowed", "name", "seq")

    def __init__(self, name: str) -> None:
        self.name = name
        self.seq: int | None = None  # of its tool/call
        self.allowed = True  # False while its own approval is not given


class LogProgress:
    """How far a log has come: its turn, its step, and the calls that wait for a result."""

    def __init__(self) -> None:
        self.turn = 0
        self.step = 0
        self.turn_open = False
        self.step_open = False
        self.calls: dict[str, OpenCall] = {}
        self._asked: dict[object, OpenCall] = {}

    def advance(self, event: SessionEvent) -> None:
        """Take an event that is in the log."""
        match event.view:
            case TurnStart(turn):
                self.turn, self.turn_open = turn, True
                self.step = 0
            case TurnEnd():
                self.turn_open = False
            case StepStart(step=step):
                self.step, self.step_open = step, True
                self.calls, self._asked = {}, {}
            case StepEnd():
                self.step_open = False
            case AssistantMessage(message=message) if self.step_open:
                for block in message.tool_calls:
                    self.calls[block.id] = OpenCall(block.name)
            case ToolCall(call_id=call_id, name=name) if self.step_open:
                self.calls.setdefault(call_id, OpenCall(name)).seq = event.seq
            case ToolResult() as result:
                self.calls.pop(result.block.tool_call_id, None)
            case _ if event.type in _APPROVALS:
                _APPROVALS[event.type](self, event.data)

    def check(self, event: SessionEvent) -> None:
        """Raise ValueError if the event may not come next. Nothing changes."""
        match event.view:
            case TurnStart(turn):
                _require(not self.turn_open, f"turn {self.turn} is open")
                _require(turn == self.turn + 1, f"turn {self.turn + 1} is next, not {turn}")
            case TurnEnd(turn):
                self._check_turn(turn)
                _require(not self.step_open, f"step {self.step} is open")
            case StepStart(turn, step):
                self._check_turn(turn)
                _require(not self.step_open, f"step {self.step} is open")
                _require(step == self.step + 1, f"step {self.step + 1} is next, not {step}")
            case StepEnd(turn, step):
                self._check_step(turn, step)
                waiting = [call_id for call_id, call in self.calls.items() if call.seq is not None]
                _require(not waiting, f"calls without a result: {', '.join(waiting)}")
            case ToolResult() if is_replacement(event):
                _require(self.turn_open, "a result is rewritten inside a turn only")
            case AssistantChunk() | AssistantMessage() | ToolCall() | ToolResult() as bound:
                if not is_replacement(event):
                    self._check_bound(bound)
            case RequestHeader() | RequestContext() | TodoWrite():
                _require(self.turn_open, "no turn is open")

    def _check_turn(self, turn: int) -> None:
        _require(self.turn_open, "no turn is open")
        _require(turn == self.turn, f"turn {self.turn} is open, not {turn}")

    def _check_step(self, turn: int, step: int) -> None:
        _require(self.step_open, "no step is open")
        here = f"step {self.step} of turn {self.turn} is open, not step {step} of turn {turn}"
        _require((turn, step) == (self.turn, self.step), here)

    def _check_bound(self, view: StepBound) -> None:
        self._check_step(view.turn, view.step)
        if isinstance(view, ToolCall):
            call = self.calls.get(view.call_id)
            _require(call is None or call.seq is None, f"call {view.call_id!r} is open already")
        elif isinstance(view, ToolResult):
            call = self.calls.get(view.block.tool_call_id)
            started = call is not None and call.seq is not None
            not_started = view.error is not None and view.error.code == TOOL_NOT_STARTED
            _require(started or not_started, "it answers no tool/call of this step")

    def _ask(self, data: Mapping[str, Any]) -> None:
        call = self.calls.get(data.get("callId", ""))
        if call is not None and "origin" not in data:
            call.allowed = False
            self._asked[data.get("id")] = call

    def _decide(self, data: Mapping[str, Any]) -> None:
        call = self._asked.get(data.get("id"))
        if call is not None and data.get("outcome") == "allowed-once":
            call.allowed = True


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise ValueError(reason)


_APPROVALS: dict[str, Callable[[LogProgress, Mapping[str, Any]], None]] = {
    "approval/asked": LogProgress._ask,
    "approval/decided": LogProgress._decide,
}
