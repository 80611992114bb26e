"""What a turn shows: the answer on standard output, everything else on standard error."""

from collections.abc import Callable
from typing import TextIO

import typer

from terret_llm import Message, ModelLoading, TextDelta, ToolResultBlock
from terret_sessions import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Blocked,
    Completed,
    Denied,
    Errored,
    Interrupted,
    MaxSteps,
    MaxTokens,
    OtherEnd,
    Session,
    SessionEvent,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    event_to_json,
)

from ._errors import DONE, FAILED
from ._printing import say, shorten


class Screen:
    """Follows the log of one session and prints it.

    Args:
        session_id: the session to follow; events of others are not shown.
        out: where the answer goes.
        stream: print the answer piece by piece, as for a terminal, else once at its end.
        rows: print the log itself, one JSON object a line, in place of the answer.
        quiet: keep standard error for errors.
        broken: called when nobody reads `out` any more.
    """

    def __init__(
        self,
        session_id: str,
        out: TextIO,
        *,
        stream: bool,
        rows: bool = False,
        quiet: bool = False,
        broken: Callable[[], object] = lambda: None,
    ) -> None:
        self.reason: TurnEndReason | None = None
        self.is_broken = False
        self._session_id = session_id
        self._out = out
        self._stream = stream and not rows
        self._rows = rows
        self._quiet = quiet
        self._broken = broken
        self._answer = ""
        self._column = 0

    def __call__(self, session: Session, event: SessionEvent) -> None:
        """Shows one event of the log."""
        if session.id != self._session_id:
            return
        if self._rows:
            self._write(event_to_json(event).decode() + "\n")
        match event.view:
            case TurnStart():
                self._answer, self.reason = "", None
            case AssistantChunk(chunk=TextDelta(text=text)) if self._stream:
                self._write(text)
            case AssistantMessage(message=message):
                self._answer = message.text
                self._end_line()
            case ToolCall(name=name, arguments=arguments):
                self._note(f"-> {name} {arguments}")
            case ToolResult(message=message):
                self._note(f"<- {_result_text(message)}")
            case TurnEnd(reason=reason):
                self._end_turn(reason)

    def loading(self, change: ModelLoading) -> None:
        """Shows that a model is being loaded."""
        if change.state == "started":
            self._note(f"loading {change.model} ...")

    def note(self, text: str) -> None:
        """Prints a line about what happens, unless quiet."""
        self._note(text)

    @property
    def code(self) -> int:
        """The exit code that the end of the turn stands for."""
        if self.is_broken:
            return FAILED
        return DONE if isinstance(self.reason, Completed | MaxTokens) else FAILED

    def _end_turn(self, reason: TurnEndReason) -> None:
        self.reason = reason
        self._end_line()
        if isinstance(reason, Completed | MaxTokens) and not (self._stream or self._rows):
            self._write(self._answer + "\n")
        trouble = describe_end(reason)
        if trouble:
            say(trouble)

    def _write(self, text: str) -> None:
        if not text or self.is_broken:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            self.is_broken = True
            self._broken()
        self._column = len(text) - text.rfind("\n") - 1 if "\n" in text else self._column + 1

    def _end_line(self) -> None:
        if self._stream and self._column:
            self._write("\n")

    def _note(self, text: str) -> None:
        if not self._quiet:
            self._end_line()
            typer.secho(text, err=True, dim=True)


def describe_end(reason: TurnEndReason) -> str:
    """Says in one line how a turn ended, if it did not just complete."""
    match reason:
        case Completed():
            return ""
        case MaxTokens():
            return "the answer was cut off at the output limit of the model"
        case Errored(failure=failure):
            return f"error: {failure.message} [{failure.code}]"
        case Aborted(cause=cause):
            return f"cancelled ({cause.kind})"
        case Blocked(reason=why):
            return f"blocked: {why}" if why else "blocked by a policy"
        case MaxSteps(limit=limit):
            return f"stopped after {limit} steps"
        case Denied(tools=tools):
            return f"stopped: {', '.join(tools)} denied"
        case Interrupted():
            return "interrupted: the process ended before the turn did"
        case OtherEnd(kind=kind):
            return f"ended: {kind}"


def _result_text(message: Message) -> str:
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            texts = (getattr(part, "text", f"[{part.type}]") for part in block.content)
            return shorten(" ".join(texts))
    return shorten(message.text)
