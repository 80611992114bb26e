from collections.abc import Iterable

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
from ._persistence import LastTurn


def last_turn(newest_first: Iterable[SessionEvent]) -> LastTurn | None:
    """What the end of a log tells about its last turn; reads no further than it has to.

    None if the events that are given belong to no turn.
    """
    for event in newest_first:
        match event.view:
            case TurnEnd(turn, reason):
                return LastTurn(turn, reason)
            case (
                TurnStart(turn)
                | StepStart(turn)
                | StepEnd(turn)
                | AssistantChunk(turn)
                | AssistantMessage(turn)
                | ToolCall(turn)
                | ToolResult(turn)
            ):
                return LastTurn(turn, None)
    return None
