from collections.abc import Mapping
from typing import Self

from terret_llm import (
    Chunk,
    Message,
    ToolResultBlock,
    ToolSource,
    Usage,
    chunk_from_wire,
    message_from_wire,
    slotted,
    usage_from_wire,
)

from ._event_types import EventType, declare_event_type, register
from ._json import check_json
from ._reading import Fields, present
from ._reasons import TurnEndReason, reason_from_wire, reason_to_wire


@slotted
class TurnStart:
    """A turn begins; turns count from 1."""

    turn: int

    def to_wire(self) -> dict[str, object]:
        return {"turn": self.turn}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        return cls(Fields(data, "turn/start", "turn").count("turn", least=1))


@slotted
class TurnEnd:
    """A turn is over."""

    turn: int
    reason: TurnEndReason

    def to_wire(self) -> dict[str, object]:
        return {"turn": self.turn, "reason": reason_to_wire(self.reason)}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "turn/end", "turn", "reason")
        return cls(read.count("turn", least=1), reason_from_wire(read.get("reason")))


@slotted
class StepStart:
    """A step of the open turn begins; steps count from 1 in each turn."""

    turn: int
    step: int

    def to_wire(self) -> dict[str, object]:
        return {"turn": self.turn, "step": self.step}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "step/start", "turn", "step")
        return cls(read.count("turn", least=1), read.count("step", least=1))


@slotted
class StepEnd:
    """The open step is over."""

    turn: int
    step: int

    def to_wire(self) -> dict[str, object]:
        return {"turn": self.turn, "step": self.step}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "step/end", "turn", "step")
        return cls(read.count("turn", least=1), read.count("step", least=1))


@slotted
class AssistantChunk:
    """A chunk of the model's stream, as it came."""

    turn: int
    step: int
    chunk: Chunk

    def to_wire(self) -> dict[str, object]:
        return {"turn": self.turn, "step": self.step, "chunk": self.chunk.to_wire()}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "assistant/chunk", "turn", "step", "chunk")
        chunk = chunk_from_wire(read.get("chunk"))
        return cls(read.count("turn", least=1), read.count("step", least=1), chunk)


@slotted
class AssistantMessage:
    """The model's answer of a step; `interrupted` if its stream was cancelled."""

    turn: int
    step: int
    message: Message
    usage: Usage | None = None
    interrupted: bool = False

    def to_wire(self) -> dict[str, object]:
        return {
            "turn": self.turn,
            "step": self.step,
            "message": self.message.to_wire(),
            **present(
                usage=None if self.usage is None else self.usage.to_wire(),
                interrupted=self.interrupted or None,
            ),
        }

    @classmethod
    def from_wire(cls, data: object) -> Self:
        keys = ("turn", "step", "message", "usage", "interrupted")
        read = Fields(data, "assistant/message", *keys)
        message = message_from_wire(read.get("message"))
        if message.role != "assistant":
            raise ValueError(f"assistant/message: role {message.role!r} must be 'assistant'")
        return cls(
            read.count("turn", least=1),
            read.count("step", least=1),
            message,
            usage_from_wire(read.get("usage")) if "usage" in read else None,
            read.marker("interrupted"),
        )


@slotted
class ToolCall:
    """A call the loop has taken up; `arguments` is the model's raw text."""

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str

    def to_wire(self) -> dict[str, object]:
        return {
            "turn": self.turn,
            "step": self.step,
            "callId": self.call_id,
            "name": self.name,
            "arguments": self.arguments,
        }

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "tool/call", "turn", "step", "callId", "name", "arguments")
        return cls(
            read.count("turn", least=1),
            read.count("step", least=1),
            read.text("callId"),
            read.text("name"),
            read.text("arguments"),
        )


@slotted
class ErrorInfo:
    """The name and code of a failed call, with the data of a denial beside them on the wire."""

    name: str
    code: str
    data: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        if self.data is not None:
            check_json(dict(self.data))

    def to_wire(self) -> dict[str, object]:
        return {**(self.data or {}), "name": self.name, "code": self.code}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        if not isinstance(data, Mapping):
            raise ValueError("tool/result: 'error' must be an object")
        read = Fields(data, "tool/result: 'error'", *data)
        rest = {key: value for key, value in data.items() if key not in ("name", "code")}
        return cls(read.text("name"), read.text("code"), rest or None)


@slotted
class ToolResult:
    """The answer to a call: a message of one tool-result block."""

    turn: int
    step: int
    message: Message
    error: ErrorInfo | None = None

    @property
    def block(self) -> ToolResultBlock:
        """The one block of the message."""
        block = self.message.content[0]
        assert isinstance(block, ToolResultBlock)
        return block

    def to_wire(self) -> dict[str, object]:
        return {
            "turn": self.turn,
            "step": self.step,
            "message": self.message.to_wire(),
            **present(error=None if self.error is None else self.error.to_wire()),
        }

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "tool/result", "turn", "step", "message", "error")
        message = message_from_wire(read.get("message"))
        block = message.content[0] if len(message.content) == 1 else None
        if message.role != "user" or not isinstance(message.source, ToolSource):
            raise ValueError("tool/result: the message must be a user's with source tool")
        if not isinstance(block, ToolResultBlock) or block.tool_call_id != message.source.call_id:
            raise ValueError("tool/result: the message must be one result of its source's call")
        return cls(
            read.count("turn", least=1),
            read.count("step", least=1),
            message,
            ErrorInfo.from_wire(read.get("error")) if "error" in read else None,
        )


def _user_message(data: object) -> Message:
    message = message_from_wire(data)
    if message.role != "user":
        raise ValueError(f"user/message: role {message.role!r} must be 'user'")
    return message


declare_event_type("turn/start", TurnStart)
declare_event_type("turn/end", TurnEnd)
declare_event_type("step/start", StepStart)
declare_event_type("step/end", StepEnd)
register(EventType("user/message", Message, True, False, _user_message, Message.to_wire))
declare_event_type("assistant/chunk", AssistantChunk)
declare_event_type("assistant/message", AssistantMessage, surface=True)
declare_event_type("tool/call", ToolCall)
declare_event_type("tool/result", ToolResult, surface=True)
