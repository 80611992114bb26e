import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import ClassVar

from ._blocks import Block, block_from_wire
from ._outcomes import Finish, Usage, finish_from_wire, usage_from_wire
from ._reading import as_object, only, optional, required
from ._slotted import slotted


@slotted
class BlockStart:
    """A block begins at `index`."""

    type: ClassVar[str] = "block-start"
    index: int
    block_type: str

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"type": "block-start", "index": self.index, "blockType": self.block_type}


@slotted
class TextDelta:
    """More text of the block at `index`."""

    type: ClassVar[str] = "text-delta"
    index: int
    text: str

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"type": "text-delta", "index": self.index, "text": self.text}


@slotted
class ReasoningDelta:
    """More reasoning of the block at `index`."""

    type: ClassVar[str] = "reasoning-delta"
    index: int
    text: str

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"type": "reasoning-delta", "index": self.index, "text": self.text}


@slotted
class ToolCallDelta:
    """More of the tool call at `index`; `name` comes once, the arguments in pieces of text."""

    type: ClassVar[str] = "tool-call-delta"
    index: int
    id: str
    name: str | None = None
    arguments_delta: str = ""

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log; an absent name is left out."""
        wire: dict[str, object] = {"type": "tool-call-delta", "index": self.index, "id": self.id}
        if self.name is not None:
            wire["name"] = self.name
        wire["argumentsDelta"] = self.arguments_delta
        return wire


@slotted
class BlockEnd:
    """The block at `index` is complete; `block` is authoritative over its deltas."""

    type: ClassVar[str] = "block-end"
    index: int
    block: Block

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"type": "block-end", "index": self.index, "block": self.block.to_wire()}


@slotted
class UsageChunk:
    """Tokens so far; a later one replaces an earlier one."""

    type: ClassVar[str] = "usage"
    usage: Usage

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {"type": "usage", "usage": self.usage.to_wire()}


@slotted
class FinishChunk:
    """The last chunk of every stream."""

    type: ClassVar[str] = "finish"
    finish: Finish

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log; an absent replay state is left out."""
        wire: dict[str, object] = {"type": "finish", "reason": self.finish.to_wire()}
        if self.finish.replay_state is not None:
            wire["replayState"] = dict(self.finish.replay_state)
        return wire


Chunk = (
    BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | FinishChunk
)


def chunk_json(chunk: Chunk) -> str:
    """The chunk's JSON text, equal to that of `to_wire()`; deltas are formatted by hand.

    A lone surrogate stays in the text, and encoding it as UTF-8 fails.
    """
    if isinstance(chunk, TextDelta | ReasoningDelta):
        return (
            f'{{"type":"{chunk.type}","index":{chunk.index}'
            f',"text":{encode_basestring(chunk.text)}}}'
        )
    if isinstance(chunk, ToolCallDelta):
        name = "" if chunk.name is None else f',"name":{encode_basestring(chunk.name)}'
        return (
            f'{{"type":"tool-call-delta","index":{chunk.index},"id":{encode_basestring(chunk.id)}'
            f'{name},"argumentsDelta":{encode_basestring(chunk.arguments_delta)}}}'
        )
    return json.dumps(chunk.to_wire(), ensure_ascii=False, separators=(",", ":"))


def chunk_from_wire(data: object) -> Chunk:
    """Read a chunk of the log; raises ValueError if it is malformed or of an unknown type."""
    wire = as_object(data, "chunk")
    chunk_type = required(wire, "type", str, "chunk")
    read = _READERS.get(chunk_type)
    if read is None:
        raise ValueError(f"chunk: unknown type {chunk_type!r}")
    return read(wire)


def _block_start(wire: Mapping[str, object]) -> Chunk:
    only(wire, frozenset({"type", "index", "blockType"}), "block-start")
    return BlockStart(_index(wire), required(wire, "blockType", str, "block-start"))


def _text_delta(wire: Mapping[str, object]) -> Chunk:
    only(wire, _DELTA_KEYS, "text-delta")
    return TextDelta(_index(wire), required(wire, "text", str, "text-delta"))


def _reasoning_delta(wire: Mapping[str, object]) -> Chunk:
    only(wire, _DELTA_KEYS, "reasoning-delta")
    return ReasoningDelta(_index(wire), required(wire, "text", str, "reasoning-delta"))


def _tool_call_delta(wire: Mapping[str, object]) -> Chunk:
    place = "tool-call-delta"
    only(wire, frozenset({"type", "index", "id", "name", "argumentsDelta"}), place)
    return ToolCallDelta(
        _index(wire),
        required(wire, "id", str, place),
        optional(wire, "name", str, place),
        required(wire, "argumentsDelta", str, place),
    )


def _block_end(wire: Mapping[str, object]) -> Chunk:
    only(wire, frozenset({"type", "index", "block"}), "block-end")
    return BlockEnd(_index(wire), block_from_wire(wire.get("block")))


def _usage(wire: Mapping[str, object]) -> Chunk:
    only(wire, frozenset({"type", "usage"}), "usage chunk")
    return UsageChunk(usage_from_wire(wire.get("usage")))


def _finish(wire: Mapping[str, object]) -> Chunk:
    only(wire, frozenset({"type", "reason", "replayState"}), "finish")
    replay_state = optional(wire, "replayState", dict, "finish")
    return FinishChunk(finish_from_wire(wire.get("reason"), replay_state))


def _index(wire: Mapping[str, object]) -> int:
    return required(wire, "index", int, "chunk")


_DELTA_KEYS = frozenset({"type", "index", "text"})
_READERS: dict[str, Callable[[Mapping[str, object]], Chunk]] = {
    "block-start": _block_start,
    "text-delta": _text_delta,
    "reasoning-delta": _reasoning_delta,
    "tool-call-delta": _tool_call_delta,
    "block-end": _block_end,
    "usage": _usage,
    "finish": _finish,
}
