"""The log of a session as people read it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from pydantic_core import to_json

from terret_llm import Message, ToolResultBlock
from terret_sessions import (
    Aborted,
    AssistantMessage,
    Blocked,
    Completed,
    Denied,
    Errored,
    Interrupted,
    MaxSteps,
    MaxTokens,
    OtherEnd,
    SessionEvent,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    last_turn,
)

from ._printing import printable, shorten


def transcript(events: Iterable[SessionEvent]) -> Iterator[str]:
    """Yields the turns with what was said and done, a line for each message and call."""
    for event in events:
        match event.view:
            case TurnStart(turn=turn):
                yield f"turn {turn}"
            case Message() as message:
                yield f"  {message.source.kind:<9} {_line(message.text)}"
            case AssistantMessage(message=message) if message.text:
                yield f"  assistant {_line(message.text)}"
            case ToolCall(name=name, arguments=arguments):
                yield f"  call      {name} {_line(arguments)}"
            case ToolResult(message=message):
                yield f"  result    {_line(result_text(message))}"
            case TurnEnd(reason=reason):
                yield f"  ended     {_line(describe_end(reason) or reason.kind)}"


def result_text(message: Message) -> str:
    """Returns what a tool gave, as text."""
    blocks = [block for block in message.content if isinstance(block, ToolResultBlock)]
    parts = chain.from_iterable(block.content for block in blocks)
    return " ".join(getattr(part, "text", f"[{part.type}]") for part in parts)


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


def open_items(events: Sequence[SessionEvent]) -> tuple[str, ...]:
    """Returns what nobody has decided or answered yet."""
    return tuple(text for text, outcome in _items(events) if outcome is None)


def cut_items(events: Sequence[SessionEvent]) -> tuple[str, ...]:
    """Returns what was open when the process of the last turn ended, and is closed since."""
    turn = last_turn(reversed(events))
    if turn is None or not isinstance(turn.end, Interrupted):
        return ()
    return tuple(text for text, outcome in _items(events) if outcome in (None, "cancelled"))


def _items(events: Sequence[SessionEvent]) -> Iterator[tuple[str, object]]:
    """Yields what people were asked in the last turn, and what came of it."""
    ends: dict[object, object] = {}
    asked: list[tuple[object, str]] = []
    for event in reversed(events):
        match event.type:
            case "approval/decided" | "question/answered":
                ends[event.data.get("id")] = event.data.get("outcome")
            case "approval/asked":
                arguments = to_json(event.data.get("args")).decode()
                text = f"{event.data.get('toolName')} {arguments}"
                asked.append((event.data.get("id"), text))
            case "question/asked":
                asked.append((event.data.get("id"), str(event.data.get("question"))))
            case "turn/start":
                break
    for id, text in reversed(asked):
        yield _line(text), ends.get(id)


def _line(text: str) -> str:
    return shorten(printable(text))
