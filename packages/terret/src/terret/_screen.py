"""What a turn shows: the answer on standard output, everything else on standard error."""

from collections.abc import Mapping

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


class Screen:
    """Shows the events of turns, as they come.

    Args:
        out: where answers go.
        stream: print answers piece by piece, as for a terminal, else once at the end of a turn.
        quiet: keep standard error for errors.
    """

    def __init__(self, out: Output, *, stream: bool, quiet: bool = False) -> None:
        self._out = out
        self._stream = stream
        self._quiet = quiet
        self._answer = ""

    def show(self, event: SessionEvent) -> None:
        """Shows one event of a log."""
        match event.view:
            case TurnStart():
                self._answer = ""
            case AssistantChunk(chunk=TextDelta(text=text)) if self._stream:
                self._out.write(text)
            case AssistantMessage(message=message):
                self._show_message(message)
            case ToolCall(name=name, arguments=arguments):
                self.note(f"-> {name} {arguments}")
            case ToolResult(message=message):
                self._show_result(message)
            case TurnEnd(reason=reason):
                self._end_turn(reason)
            case Mapping() as data:
                self._show_inquiry(event.type, data)

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
        self._out.end_line()
        if not message.tool_calls:
            self._answer = message.text
        elif message.text and not self._stream:
            self.note(message.text)

    def _show_result(self, message: Message) -> None:
        failed = any(isinstance(b, ToolResultBlock) and b.is_error for b in message.content)
        self.note(f"<- {result_text(message)}", failed=failed)

    def _show_inquiry(self, type: str, data: Mapping[str, object]) -> None:
        match type:
            case "approval/asked":
                self.note(
                    f"?  {data.get('toolName')}: {data.get('reason') or 'approval is needed'}"
                )
            case "question/asked":
                self.note(f"?  {data.get('question')}")
            case "approval/decided" | "question/answered":
                by = f" by {data['by']}" if data.get("by") else ""
                self.note(f"   {data.get('outcome')}{by}")

    def _end_turn(self, reason: TurnEndReason) -> None:
        self._out.end_line()
        match reason:
            case MaxSteps() | Denied():
                self._out.write(reason.text + "\n")
            case Completed() | MaxTokens() if not self._stream:
                self._out.write(self._answer + "\n")
        say_end(reason)


def say_end(reason: TurnEndReason) -> None:
    """Says on standard error how a turn ended, if its answer does not."""
    if isinstance(reason, Completed | MaxSteps | Denied):
        return
    trouble = printable(describe_end(reason))
    say(trouble if isinstance(reason, MaxTokens | Errored) else f"error: {trouble}")


def exit_code(reason: TurnEndReason | None) -> int:
    """Returns the exit code that the end of a turn stands for."""
    if isinstance(reason, Completed | MaxTokens):
        return DONE
    return STOPPED if isinstance(reason, MaxSteps | Denied) else FAILED
