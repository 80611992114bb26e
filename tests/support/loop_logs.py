"""Session logs as a loop and its plugins write them, and events of protocol v1 in one line."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from terret_llm import (
    PluginSource,
    TextBlock,
    ToolCallBlock,
    Usage,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_loop_events import Projection
from terret_sessions import (
    AssistantMessage,
    Completed,
    ErrorInfo,
    InboxSpliced,
    Replace,
    RequestContext,
    Session,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)

SCOPE = {"tenant": "acme", "environment": "test", "agent": "shop"}


_SHOWN: Final = (
    *("sessionId", "id", "tool", "name", "args", "decision", "action", "statusText"),
    *("usedTokens", "budgetTokens", "from", "to", "deniedTools", "maxTurns", "summary", "skill"),
    *("question", "text", "error", "stopReason"),
)


def line(event: Mapping[str, Any]) -> str:
    """Says what an event is in one line."""
    return " ".join([event["type"], *(_word(event[key]) for key in _SHOWN if key in event)])


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


class Log:
    """Writes a session log as a loop and its plugins would."""

    def __init__(self, session: Session | None = None) -> None:
        self.session = session or Session("s")
        self._step = 0

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """The events of protocol v1 that the log gives."""
        return project(self.session)

    @property
    def lines(self) -> list[str]:
        return lines(self.events)

    @property
    def turn(self) -> int:
        return self.session.last_turn

    def start(self) -> "Log":
        self.session.append("turn/start", TurnStart(self.turn + 1))
        self._step = 0
        return self

    def step(self, *messages: str) -> "Log":
        self._step += 1
        self.session.append("step/start", StepStart(self.turn, self._step))
        for text in messages:
            self.session.append("user/message", create_user_message(text), surface_op="append")
        return self

    def stop(self) -> "Log":
        self.session.append("step/end", StepEnd(self.turn, self._step))
        return self

    def end(self, reason: TurnEndReason | None = None) -> "Log":
        if self.session.open_step:
            self.stop()
        self.session.append("turn/end", TurnEnd(self.turn, reason or Completed()))
        return self

    def say(self, text: str = "", *calls: str, usage: int = 0, interrupted: bool = False) -> "Log":
        """An answer; a call is `id:tool` with empty arguments, or `id:tool:json`."""
        blocks = [TextBlock(text)] if text else []
        requested = [ToolCallBlock(*_call(each)) for each in calls]
        message = create_assistant_message([*blocks, *requested], "p", "m")
        counted = Usage(usage, 0) if usage else None
        payload = AssistantMessage(self.turn, self._step, message, counted, interrupted)
        self.session.append("assistant/message", payload, surface_op="append", sources=())
        return self

    def call(self, id: str, tool: str) -> "Log":
        self.session.append("tool/call", ToolCall(self.turn, self._step, id, tool, "{}"))
        return self

    def decide(self, id: str, tool: str, decision: str = "allow", **more: object) -> "Log":
        row = {"turn": self.turn, "step": self._step, "callId": id, "name": tool}
        row |= {"decision": decision, "source": "rule", "reason": "why", **more}
        self.session.append("tool/decision", row)
        return self

    def result(self, id: str, text: str = "ok", code: str | None = None, **data: object) -> "Log":
        message = create_tool_result_message(id, text, is_error=code is not None)
        name = str(data.pop("name", "Denial"))
        error = ErrorInfo(name, code, data) if code else None
        payload = ToolResult(self.turn, self._step, message, error)
        self.session.append("tool/result", payload, surface_op="append")
        return self

    def ask(self, item: str, call: str, tool: str, **more: object) -> "Log":
        row: dict[str, object] = {"id": item, "callId": call, "toolName": tool, "args": {}}
        row |= {"turn": self.turn, "step": self._step, "scope": SCOPE, "editable": False}
        self.session.append("approval/asked", row | {"reason": "why"} | more)
        return self

    def answer(self, item: str, outcome: str = "allowed-once") -> "Log":
        self.session.append("approval/decided", {"id": item, "outcome": outcome})
        return self

    def write(self, type: str, **data: object) -> "Log":
        self.session.append(type, data, ignorable=True)
        return self

    def queue(self, text: str, plugin: str | None = None) -> "Log":
        source = PluginSource(plugin) if plugin else None
        splice = InboxSpliced("next-step", 0, 0, (create_user_message(text, source),))
        self.session.append("agent/inbox/spliced", splice)
        return self

    def window(self, tokens: int | None) -> "Log":
        self.session.append("request/context", RequestContext("p", "m", tokens))
        return self

    def compact(self, start: int, end: int, *, turn: int | None, **error: object) -> "Log":
        """A compaction that replaces what stands between two seqs by a message."""
        session = self.session
        seqs = list(session.surface.seqs)
        nodes = [] if error else seqs[seqs.index(start) : seqs.index(end) + 1]
        self.write("compaction/start", turn=turn)
        if not error:
            self.write("compaction/summary", shadowedSeqs=nodes)
            message = create_user_message("summary", PluginSource("compaction"))
            op = Replace(start, end)
            session.append("user/message", message, surface_op=op, sources=sorted(nodes))
        return self.write("compaction/end", **error)


def _call(text: str) -> tuple[str, str, str]:
    id, tool, *rest = text.split(":", 2)
    return id, tool, rest[0] if rest else "{}"


def project(session: Session, until: int | None = None) -> list[Mapping[str, Any]]:
    """The events of protocol v1 that a log, or its beginning, gives."""
    fold = Projection("s", "shop", copied=session.header.seed_length or 0)
    return [given for event in session.events[:until] for given in fold.feed(event)]


def lines(events: Iterable[Mapping[str, Any]]) -> list[str]:
    return [line(event) for event in events]
