"""The calls of one answer, from the request to the result."""

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic_core import from_json

from terret_llm import ToolCallBlock
from terret_sessions import ToolResult as ResultPayload
from terret_tools import (
    ABORTED,
    ABORTED_BEFORE_DISPATCH,
    DENIED,
    INVALID_ARGS,
    SKIPPED_SIBLING_DENIED,
    TOOL_OUTCOME_UNKNOWN,
    UNKNOWN_TOOL,
)

from ._texts import message_of, summary_of
from .types import LoopEvent, ToolResult

_NOT_RUN: Final = frozenset({DENIED, UNKNOWN_TOOL, INVALID_ARGS})
_NO_DECISION: Final = "no decision recorded"
_TOOL_NOT_STARTED: Final = "TOOL_NOT_STARTED"
_REPAIRED: Final = "Interrupted"
_SKILL: Final = "Skill"


class _Call:
    """One requested call. `held` is what has to be told unless a skill takes its place."""

    __slots__ = ("args", "asked", "held", "id", "reason", "silent", "started", "tool")

    def __init__(self, block: ToolCallBlock) -> None:
        self.id = block.id
        self.tool = block.name
        self.args = _object(block.arguments)
        self.reason: str | None = None
        self.asked = False
        self.held: list[LoopEvent] = []
        self.started = False
        self.silent = False

    def allow(self, reason: str) -> list[LoopEvent]:
        self.reason, self.started = reason, True
        return [
            {"type": "actauth:decision", "tool": self.tool, "decision": "allow", "reason": reason},
            {
                "type": "tool:started",
                "id": self.id,
                "tool": self.tool,
                "args": self.args or {},
                "detailText": reason,
            },
        ]

    def deny(self, reason: str) -> list[LoopEvent]:
        self.reason, self.silent = reason, True
        return [
            {"type": "actauth:decision", "tool": self.tool, "decision": "deny", "reason": reason},
            self.result("Denied."),
        ]

    def result(self, status: str) -> ToolResult:
        event: ToolResult = {
            "type": "tool:result",
            "id": self.id,
            "tool": self.tool,
            "statusText": status,
        }
        if self.args is not None:
            event["args"] = self.args
        if self.reason is not None:
            event["detailText"] = self.reason
        return event


class Calls:
    """What is known of the calls of the last answer; each becomes one chain of events."""

    __slots__ = ("_calls", "_summary_max_bytes")

    def __init__(self, summary_max_bytes: int) -> None:
        self._summary_max_bytes = summary_max_bytes
        self._calls: dict[str, _Call] = {}

    def request(self, blocks: Iterable[ToolCallBlock]) -> None:
        """Takes the calls of a new answer; those before it are over."""
        self._calls = {block.id: _Call(block) for block in blocks}

    def ask(self, data: Mapping[str, object]) -> None:
        """Somebody is asked about a call."""
        call = self._calls.get(str(data.get("callId")))
        if call is not None:
            call.asked = True

    def decide(self, data: Mapping[str, object]) -> list[LoopEvent]:
        """A call was decided."""
        call = self._calls.get(str(data.get("callId")))
        if call is None or call.reason is not None:
            return []  # a call that another one made in its body
        args, reason = data.get("args"), str(data.get("reason", ""))
        if isinstance(args, dict):
            call.args = args
        if data.get("decision") != "allow":
            return call.deny(reason)
        events = call.allow(reason)
        if call.tool != _SKILL or call.asked:
            return events
        call.held = events
        return []

    def load_skill(self, data: Mapping[str, object]) -> list[LoopEvent]:
        """A call got the body of a skill, which is all that is told of it."""
        call = self._calls.get(str(data.get("callId")))
        if call is None or not call.held:
            return []
        call.held, call.silent = [], True
        return [{"type": "skill:loaded", "skill": str(data.get("skill", ""))}]

    def finish(self, view: ResultPayload) -> list[LoopEvent]:
        """A call has its result."""
        call = self._calls.pop(view.block.tool_call_id, None)
        if call is None or call.silent:
            return []
        code = view.error.code if view.error else None
        if code == _TOOL_NOT_STARTED or _is_repaired(view):
            return []  # the error that ends the turn says it all
        if code == SKIPPED_SIBLING_DENIED:
            return self._skip(call, view)
        if code == ABORTED_BEFORE_DISPATCH and not call.started:
            return []
        events = call.held
        if not call.started:
            if code in _NOT_RUN:
                return call.deny(_NO_DECISION)
            events = call.allow(_NO_DECISION)
        if code in (ABORTED, ABORTED_BEFORE_DISPATCH):
            return [*events, call.result("Cancelled.")]
        summary = summary_of(view.block, self._summary_max_bytes)
        status = "Error." if view.block.is_error else "Approved."
        return [
            *events,
            {"type": "toollane:result", "name": call.tool, "summary": summary},
            call.result(status),
        ]

    def _skip(self, call: _Call, view: ResultPayload) -> list[LoopEvent]:
        call.reason = call.reason or message_of(view.block)
        denied = (view.error.data or {}).get("denied") if view.error else None
        names = [str(name) for name in denied] if isinstance(denied, list | tuple) else []
        return [
            {"type": "loop:skipped", "name": call.tool, "deniedTools": names},
            call.result("Skipped."),
        ]


def _is_repaired(view: ResultPayload) -> bool:
    error = view.error
    return error is not None and (error.name, error.code) == (_REPAIRED, TOOL_OUTCOME_UNKNOWN)


def _object(arguments: str) -> dict[str, object] | None:
    if not arguments.strip():
        return {}
    try:
        value = from_json(arguments, allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
