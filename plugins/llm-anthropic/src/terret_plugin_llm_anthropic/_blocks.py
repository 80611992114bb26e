"""The blocks of one answer while they stream in."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import final

from terret_llm import (
    Block,
    BlockEnd,
    BlockStart,
    Chunk,
    ReasoningBlock,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    UnknownBlock,
)
from terret_llm.wire import (
    dump_json,
    exact,
    object_text,
    parse_json,
    without_lone_escapes,
)


class OpenBlock(ABC):
    """A block of the wire. `state` is what the provider wants back with it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.state: dict[str, object] = {}

    def delta(self, kind: object, delta: Mapping[str, object], out: list[Chunk]) -> bool:
        """Take a delta; False if the block knows nothing of its kind."""
        return False

    @abstractmethod
    def end(self, out: list[Chunk]) -> Block | None:
        """The finished block, or None if it has nothing in it."""


@final
class OpenText(OpenBlock):
    """Text; a block that stays empty never begins."""

    def __init__(self, index: int, wire: Mapping[str, object], out: list[Chunk]) -> None:
        super().__init__(index)
        self._pieces: list[str] = []
        self._add(wire.get("text"), out)

    def delta(self, kind: object, delta: Mapping[str, object], out: list[Chunk]) -> bool:
        if kind == "text_delta":
            self._add(delta.get("text"), out)
        elif kind == "citations_delta":
            citations = self.state.setdefault("citations", [])
            assert isinstance(citations, list)
            citations.append(exact(delta.get("citation")))
        else:
            return False
        return True

    def end(self, out: list[Chunk]) -> Block | None:
        if not self._pieces:
            return None
        block = TextBlock("".join(self._pieces))
        out.append(BlockEnd(self.index, block))
        return block

    def _add(self, text: object, out: list[Chunk]) -> None:
        if text and isinstance(text, str):
            if not self._pieces:
                out.append(BlockStart(self.index, "text"))
            self._pieces.append(text)
            out.append(TextDelta(self.index, text))


@final
class OpenThinking(OpenBlock):
    """Thoughts with their signature; some have a signature only."""

    def __init__(self, index: int, wire: Mapping[str, object], out: list[Chunk]) -> None:
        super().__init__(index)
        self._pieces: list[str] = []
        self._begun = False
        self._add(wire.get("thinking"), out)
        self._sign(wire.get("signature"), out)

    def delta(self, kind: object, delta: Mapping[str, object], out: list[Chunk]) -> bool:
        if kind == "thinking_delta":
            self._add(delta.get("thinking"), out)
        elif kind == "signature_delta":
            self._sign(delta.get("signature"), out)
        else:
            return False
        return True

    def end(self, out: list[Chunk]) -> Block | None:
        if not self._begun:
            return None
        block = ReasoningBlock("".join(self._pieces))
        out.append(BlockEnd(self.index, block))
        return block

    def _add(self, text: object, out: list[Chunk]) -> None:
        if text and isinstance(text, str):
            self._begin(out)
            self._pieces.append(text)
            out.append(ReasoningDelta(self.index, text))

    def _sign(self, signature: object, out: list[Chunk]) -> None:
        if signature and isinstance(signature, str):
            self._begin(out)
            self.state["signature"] = str(self.state.get("signature", "")) + signature

    def _begin(self, out: list[Chunk]) -> None:
        if not self._begun:
            self._begun = True
            out.append(BlockStart(self.index, "reasoning"))


@final
class OpenCall(OpenBlock):
    """A call of a tool of ours; arguments come in pieces, or whole with the start."""

    def __init__(
        self, index: int, wire: Mapping[str, object], out: list[Chunk], *, id: str
    ) -> None:
        super().__init__(index)
        name = wire.get("name")
        self._id = id
        self._name = name if isinstance(name, str) else ""
        self._whole = wire.get("input")
        self._pieces: list[str] = []
        out += (BlockStart(index, "tool-call"), ToolCallDelta(index, id, self._name or None, ""))

    def delta(self, kind: object, delta: Mapping[str, object], out: list[Chunk]) -> bool:
        piece = delta.get("partial_json")
        if kind != "input_json_delta":
            return False
        if piece and isinstance(piece, str):
            self._pieces.append(piece)
            out.append(ToolCallDelta(self.index, self._id, None, piece))
        return True

    def end(self, out: list[Chunk]) -> Block | None:
        text = "".join(self._pieces)
        if not text and self._whole:
            text = dump_json(self._whole).decode()
        arguments = without_lone_escapes(text)
        block = ToolCallBlock(self._id, self._name, object_text(arguments) or arguments)
        out.append(BlockEnd(self.index, block))
        return block


@final
class OpenForeign(OpenBlock):
    """A block that only the provider understands: kept whole, and sent back as it came."""

    def __init__(self, index: int, wire: Mapping[str, object], out: list[Chunk]) -> None:
        super().__init__(index)
        self._wire = dict(wire)
        self._json: list[str] = []
        out.append(BlockStart(index, str(wire["type"])))

    def delta(self, kind: object, delta: Mapping[str, object], out: list[Chunk]) -> bool:
        piece = delta.get("partial_json")
        if kind == "input_json_delta" and isinstance(piece, str):
            self._json.append(piece)
            return True
        if kind != f"{self._wire['type']}_delta":
            return False
        for key, value in delta.items():
            before = self._wire.get(key)
            if key != "type":
                joins = isinstance(before, str) and isinstance(value, str)
                self._wire[key] = f"{before}{value}" if joins else value
        return True

    def end(self, out: list[Chunk]) -> Block | None:
        text = object_text("".join(self._json))
        if self._json and text is not None:
            self._wire["input"] = parse_json(text.encode())
        block = UnknownBlock(str(self._wire["type"]), exact(self._wire))
        out.append(BlockEnd(self.index, block))
        return block
