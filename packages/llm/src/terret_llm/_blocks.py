from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ClassVar

from ._reading import as_object, only, required
from ._slotted import slotted


@slotted
class TextBlock:
    """Text that a person or a model wrote."""

    type: ClassVar[str] = "text"
    text: str

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"type": "text", "text": self.text}


@slotted
class ReasoningBlock:
    """Text that a model thought before it answered."""

    type: ClassVar[str] = "reasoning"
    text: str

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"type": "reasoning", "text": self.text}


@slotted
class ToolCallBlock:
    """A model's request to run a tool; `arguments` is its JSON text, unparsed and maybe invalid."""

    type: ClassVar[str] = "tool-call"
    id: str
    name: str
    arguments: str

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {
            "type": "tool-call",
            "id": self.id,
            "name": self.name,
            "arguments": self.arguments,
        }


@slotted
class ToolResultBlock:
    """The answer to one tool call."""

    type: ClassVar[str] = "tool-result"
    tool_call_id: str
    content: "tuple[Block, ...]"
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text blocks of the result, joined."""
        return joined_text(self.content)

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log; `isError` stands only if it is true."""
        wire: dict[str, object] = {
            "type": "tool-result",
            "toolCallId": self.tool_call_id,
            "content": [block.to_wire() for block in self.content],
        }
        if self.is_error:
            wire["isError"] = True
        return wire


@slotted
class UnknownBlock:
    """A block of a type this version does not know; `data` is its whole JSON object."""

    type: str
    data: Mapping[str, object] = field(hash=False)

    def to_wire(self) -> dict[str, object]:
        """The JSON object it was read from."""
        return dict(self.data)


Block = TextBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock | UnknownBlock


def joined_text(content: tuple[Block, ...]) -> str:
    if len(content) == 1 and type(content[0]) is TextBlock:
        return content[0].text
    return "".join(block.text for block in content if type(block) is TextBlock)


def block_from_wire(data: object) -> Block:
    """Read a block of the log; unknown types pass through.

    Raises ValueError if a known one is malformed.
    """
    wire = as_object(data, "block")
    block_type = required(wire, "type", str, "block")
    read = _READERS.get(block_type)
    return UnknownBlock(block_type, dict(wire)) if read is None else read(wire)


def blocks_from_wire(data: object, place: str) -> tuple[Block, ...]:
    if not isinstance(data, list | tuple):
        raise ValueError(f"{place} must be a list of blocks, not {type(data).__name__}")
    return tuple(map(block_from_wire, data))


def _text(wire: Mapping[str, object]) -> TextBlock:
    only(wire, _TEXT_KEYS, "text block")
    return TextBlock(required(wire, "text", str, "text block"))


def _reasoning(wire: Mapping[str, object]) -> ReasoningBlock:
    only(wire, _TEXT_KEYS, "reasoning block")
    return ReasoningBlock(required(wire, "text", str, "reasoning block"))


def _tool_call(wire: Mapping[str, object]) -> ToolCallBlock:
    place = "tool-call block"
    only(wire, _TOOL_CALL_KEYS, place)
    return ToolCallBlock(
        required(wire, "id", str, place),
        required(wire, "name", str, place),
        required(wire, "arguments", str, place),
    )


def _tool_result(wire: Mapping[str, object]) -> ToolResultBlock:
    place = "tool-result block"
    only(wire, _TOOL_RESULT_KEYS, place)
    return ToolResultBlock(
        required(wire, "toolCallId", str, place),
        blocks_from_wire(wire.get("content"), f"{place}: 'content'"),
        required(wire, "isError", bool, place) if "isError" in wire else False,
    )


_TEXT_KEYS = frozenset({"type", "text"})
_TOOL_CALL_KEYS = frozenset({"type", "id", "name", "arguments"})
_TOOL_RESULT_KEYS = frozenset({"type", "toolCallId", "content", "isError"})
_READERS: dict[str, Callable[[Mapping[str, object]], Block]] = {
    "text": _text,
    "reasoning": _reasoning,
    "tool-call": _tool_call,
    "tool-result": _tool_result,
}
