"""What a turn shows: the answer on standard output, everything else on standard error."""

import math
from collections.abc import Mapping
from typing import Any

from terret_llm import Message, ModelLoading, TextDelta, ToolResultBlock
from terret_sessions import (
    AssistantChunk,
    AssistantMessage,
    Completed,
    Denied,
    Errored,
    MaxSteps,
    MaxTokens,
    SessionEvent,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)

from ._errors import DONE, FAILED, STOPPED
from ._output import Output
from ._printing import note, printable, say
from ._transcript import describe_end, result_text

_OUTCOMES = {
    "allowed-once": "allowed",
    "rejected": "denied",
    "timed-out": "nobody answered in time",
    "unavailable": "nobody could be asked",
    "cancelled": "no longer asked",
}


class Screen:
    """Shows the events of turns, as they come.

    Args:
        out: where answers go.
        stream: print answers piece by piece, as for a terminal, else once at the end of a turn.
        quiet: keep standard error for errors.
        asks: whether people see elsewhere what they are asked.
    """

    def __init__(
        self, out: Output, *, stream: bool, quiet: bool = False, asks: bool = False
    ) -> None:
        self._out = out
        self._stream = stream
        self._quiet = quiet
        self._asks = asks
        self._answer = ""
        self._is_partial = False

    def show(self, event: SessionEvent) -> None:
        """Shows one event of a log."""
        match event.view:
            case TurnStart():
                self._answer = ""
            case StepStart() if self._stream and not self._quiet:
                self._out.hint("...")
            case AssistantChunk(chunk=TextDelta(text=text)):
                self._show_piece(text)
            case AssistantChunk():
                return
            case AssistantMessage(message=message):
                self._show_message(message)
            case ToolCall(name=name, arguments=arguments):
                self.note(f"-> {name} {arguments}")
            case ToolResult(message=message):
                self._show_result(message)
            case TurnEnd(reason=reason):
                self._end_turn(reason)
            case _:
                self._show_other(event)

    def show_unsent(self) -> None:
        """Shows that a message was taken back before its turn."""
        say_unsent()

    def loading(self, change: ModelLoading) -> None:
        """Shows that a model is being loaded."""
        if change.state == "started":
            self.note(f"loading {change.model} ...")

    def note(self, text: str, *, failed: bool = False) -> None:
        """Prints a line about what happens, unless quiet."""
        self._out.end_line()
        if not self._quiet:
            note(text, failed=failed)

    def _show_message(self, message: Message) -> None:
        if self._stream and not self._is_partial:  # it came in one piece
            self._out.stream(message.text)
        self._out.end_line()
        self._is_partial = False
        if not message.tool_calls:
            self._answer = message.text
        elif message.text and not self._stream:
            self.note(message.text)

    def _show_result(self, message: Message) -> None:
        failed = any(isinstance(b, ToolResultBlock) and b.is_error for b in message.content)
        self.note(f"<- {result_text(message)}", failed=failed)

    def _show_other(self, event: SessionEvent) -> None:
        """Shows what plugins log."""
        match event.type:
            case "approval/asked" if not self._asks:
                tool, reason = event.data.get("toolName"), event.data.get("reason")
                self.note(f"?  {tool}: {reason or 'may it run'}")
            case "question/asked" if not self._asks:
                self.note(f"?  {event.data.get('question')}")
            case "approval/decided" | "question/answered":
                outcome, by = str(event.data.get("outcome")), event.data.get("by")
                self.note(_OUTCOMES.get(outcome, outcome) + (f" by {by}" if by else ""))
            case "llm/retry":
                self.note(_retry(event.data))
            case "llm/retry-started" if self._is_partial:
                self.note("(the answer begins anew)")

    def _show_piece(self, text: str) -> None:
        if self._stream:
            self._out.stream(text)
            self._is_partial = True

    def _end_turn(self, reason: TurnEndReason) -> None:
        self._out.end_line()
        match reason:
            case MaxSteps() | Denied():
                self._out.write(reason.text + "\n")
            case Completed() | MaxTokens() if not self._stream:
                self._out.write(self._answer + "\n")
        say_end(reason)


def _retry(data: Mapping[str, Any]) -> str:
    failure = data.get("failure") or {}
    seconds = math.ceil(data.get("delayMs", 0) / 1000)
    count = f"retry {data.get('retry')} of {data.get('maxRetries')}"
    return f"waiting {seconds} s: {failure.get('message')} ({count})"


def say_end(reason: TurnEndReason) -> None:
    """Says on standard error how a turn ended, if its answer does not."""
    if isinstance(reason, Completed | MaxSteps | Denied):
        return
    trouble = printable(describe_end(reason))
    say(trouble if isinstance(reason, MaxTokens | Errored) else f"error: {trouble}")


def say_unsent() -> None:
    """Says on standard error that a message was taken back before its turn."""
    say("error: cancelled before the turn of the message")


def exit_code(reason: TurnEndReason | None) -> int:
    """Returns the exit code that the end of a turn stands for."""
    if isinstance(reason, Completed | MaxTokens):
        return DONE
    return STOPPED if isinstance(reason, MaxSteps | Denied) else FAILED
