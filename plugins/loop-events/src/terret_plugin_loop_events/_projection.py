"""The fold from a session log to the events of protocol v1."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from terret_llm import PluginSource
from terret_sessions import (
    AssistantMessage,
    Completed,
    Denied,
    InboxSpliced,
    MaxSteps,
    MaxTokens,
    RequestContext,
    SessionEvent,
    TurnEnd,
)
from terret_sessions import ToolResult as ResultPayload

from ._asks import Asks
from ._calls import Calls
from ._gauge import Gauge
from ._history import History
from ._texts import failure_text
from .types import LoopEvent

SUMMARY_MAX_BYTES: Final = 16384

CONTINUATION: Final = "recovery"
"""The plugin whose messages let a model go on with an answer that was cut off."""


class EventProjection(Protocol):
    """A fold over one session log: each event gives the events that follow from it."""

    def feed(self, event: SessionEvent) -> Sequence[Mapping[str, object]]: ...


class Projection:
    """Folds the log of one session into the events of protocol v1, log event by log event.

    It reads no clock and does no I/O; equal logs give equal outputs, and what it gave for the
    beginning of a log it gives for the whole. Its state is that of the open turn.

    Args:
        session_id: the id that clients know the session by.
        agent: the name of the session's agent.
        copied: how many events at the beginning belong to the session this one was forked from;
            they give no output.
        summary_max_bytes: where the summary of a result is cut.
    """

    def __init__(
        self,
        session_id: str,
        agent: str,
        *,
        copied: int = 0,
        summary_max_bytes: int = SUMMARY_MAX_BYTES,
    ) -> None:
        self._session_id = session_id
        self._copied = copied
        self._calls = Calls(summary_max_bytes)
        self._history = History()
        self._asks = Asks(session_id, agent)
        self._gauge = Gauge()
        self._turn_open = False
        self._step_open = False
        self._begin_turn()

    def feed(self, event: SessionEvent) -> list[LoopEvent]:
        """Takes the next event of the log and returns what follows from it, mostly nothing."""
        handle = _HANDLERS.get(event.type)
        if handle is None:
            return []
        events = handle(self, event)
        return events if event.seq >= self._copied else []

    def _begin_turn(self) -> None:
        self._asks.forget()
        self._gauge.measured(None)
        self._announced = False  # whether the next model call was told already
        self._answer = ""  # the last text without tool calls
        self._owed = False  # that text may still become an assistant:text
        self._joins = False  # the next answer goes on with that text

    def _start_turn(self, event: SessionEvent) -> list[LoopEvent]:
        self._begin_turn()
        self._turn_open = True
        return [{"type": "session", "sessionId": self._session_id}]

    def _end_turn(self, event: SessionEvent) -> list[LoopEvent]:
        self._turn_open = False
        self._calls.request(())
        assert isinstance(event.view, TurnEnd)
        match event.view.reason:
            case Completed() | MaxTokens():
                text = self._answer
                return [{"type": "loop:done", "text": text}, {"type": "done", "text": text}]
            case MaxSteps(limit=limit) as reason:
                return [
                    *self._owed_text(),
                    {"type": "loop:max_turns", "maxTurns": limit},
                    {"type": "done", "text": reason.text, "stopReason": "max_turns"},
                ]
            case Denied(tools=tools) as reason:
                return [
                    *self._owed_text(),
                    {"type": "loop:denied", "deniedTools": list(tools)},
                    {"type": "done", "text": reason.text, "stopReason": "denied"},
                ]
            case reason:
                return [{"type": "error", "error": failure_text(reason)}]

    def _start_step(self, event: SessionEvent) -> list[LoopEvent]:
        events = self._announce_call()
        self._announced, self._step_open = False, True
        return events

    def _end_step(self, event: SessionEvent) -> list[LoopEvent]:
        self._step_open = False
        self._calls.request(())
        return []

    def _measure(self, event: SessionEvent) -> list[LoopEvent]:
        self._gauge.measured(event.data)
        return []

    def _announce_call(self) -> list[LoopEvent]:
        """Tells that a model call comes, once, and first what the last one left to tell."""
        if self._announced:
            return []
        self._announced = True
        text = [] if self._joins else self._owed_text()
        return [*text, self._gauge.check()]

    def _owed_text(self) -> list[LoopEvent]:
        owed = self._answer if self._owed else ""
        self._owed = False
        return [{"type": "assistant:text", "text": owed}] if owed else []

    def _take_answer(self, event: SessionEvent) -> list[LoopEvent]:
        self._history.take(event)
        view = event.view
        assert isinstance(view, AssistantMessage)
        if view.usage is not None:
            self._gauge.used(view.usage)
        if view.interrupted or event.surface_op != "append":
            return []
        text, joins = view.message.text, self._joins
        if joins:
            text = self._answer + text
        self._joins = False
        calls = view.message.tool_calls
        self._calls.request(calls)
        if not calls:
            self._answer, self._owed = text, True
            return []
        self._owed = False
        return [{"type": "assistant:text", "text": text}] if text else []

    def _take_input(self, event: SessionEvent) -> list[LoopEvent]:
        assert isinstance(event.view, InboxSpliced)
        sources = [message.source for message in event.view.inserted]
        if self._owed and any(
            isinstance(source, PluginSource) and source.plugin == CONTINUATION for source in sources
        ):
            self._joins = True
        return []

    def _take_message(self, event: SessionEvent) -> list[LoopEvent]:
        self._history.take(event)
        return []

    def _take_result(self, event: SessionEvent) -> list[LoopEvent]:
        self._history.take(event)
        assert isinstance(event.view, ResultPayload)
        return self._calls.finish(event.view) if event.surface_op == "append" else []

    def _take_route(self, event: SessionEvent) -> list[LoopEvent]:
        assert isinstance(event.view, RequestContext)
        self._gauge.window = event.view.context_window or 0
        return []

    def _take_decision(self, event: SessionEvent) -> list[LoopEvent]:
        return self._calls.decide(event.data)

    def _take_skill(self, event: SessionEvent) -> list[LoopEvent]:
        return self._calls.load_skill(event.data)

    def _ask(self, event: SessionEvent) -> list[LoopEvent]:
        if not self._turn_open:
            return []
        if "origin" not in event.data:
            self._calls.ask(event.data)
        return [self._asks.approval(event)]

    def _resolve(self, event: SessionEvent) -> list[LoopEvent]:
        decision = self._asks.decision(event.data)
        return [decision] if decision is not None and self._turn_open else []

    def _question(self, event: SessionEvent) -> list[LoopEvent]:
        return [self._asks.question(event)] if self._turn_open else []

    def _start_compaction(self, event: SessionEvent) -> list[LoopEvent]:
        turn = event.data.get("turn") if self._turn_open else None
        self._history.start(turn)
        return [] if turn is None or self._step_open else self._announce_call()

    def _summarise(self, event: SessionEvent) -> list[LoopEvent]:
        self._history.summarise(event.data.get("shadowedSeqs"))
        return []

    def _end_compaction(self, event: SessionEvent) -> list[LoopEvent]:
        counts = self._history.end(event.data.get("error"))
        if counts is None:
            return []
        return [{"type": "prompt:compaction", "from": counts[0], "to": counts[1]}]


_HANDLERS: Final[dict[str, Callable[[Projection, SessionEvent], list[LoopEvent]]]] = {
    "turn/start": Projection._start_turn,
    "turn/end": Projection._end_turn,
    "step/start": Projection._start_step,
    "step/end": Projection._end_step,
    "user/message": Projection._take_message,
    "assistant/message": Projection._take_answer,
    "tool/result": Projection._take_result,
    "request/context": Projection._take_route,
    "agent/inbox/spliced": Projection._take_input,
    "tool/decision": Projection._take_decision,
    "approval/asked": Projection._ask,
    "approval/decided": Projection._resolve,
    "question/asked": Projection._question,
    "budget/checked": Projection._measure,
    "skill/loaded": Projection._take_skill,
    "compaction/start": Projection._start_compaction,
    "compaction/summary": Projection._summarise,
    "compaction/end": Projection._end_compaction,
}
