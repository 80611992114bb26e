from collections.abc import Mapping

from ._blocks import Block, ReasoningBlock, TextBlock, ToolCallBlock
from ._chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    FinishChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from ._outcomes import Finish, Usage


class _Partial:
    """What is known of the block at one index."""

    __slots__ = ("block_type", "done", "id", "name", "pieces")

    def __init__(self, block_type: str) -> None:
        self.block_type = block_type
        self.pieces: list[str] = []
        self.id = ""
        self.name = ""
        self.done: Block | None = None

    def block(self, index: int) -> Block:
        if self.done is not None:
            return self.done
        text = "".join(self.pieces)
        if self.block_type == "text":
            return TextBlock(text)
        if self.block_type == "reasoning":
            return ReasoningBlock(text)
        if self.block_type == "tool-call":
            return ToolCallBlock(self.id or f"call-{index}", self.name, text)
        raise ValueError(f"block {index} of unknown type {self.block_type!r} was never ended")


class BlockAssembler:
    """Collects the chunks of one stream into blocks; tolerant of missing starts and ends."""

    def __init__(self) -> None:
        self._partials: dict[int, _Partial] = {}
        self._finish: Finish | None = None
        self.usage: Usage | None = None

    def push(self, chunk: Chunk) -> None:
        """Take the next chunk. Raises ValueError for one of an unknown type."""
        if isinstance(chunk, TextDelta):
            self._delta(chunk.index, "text", chunk.text)
        elif isinstance(chunk, ReasoningDelta):
            self._delta(chunk.index, "reasoning", chunk.text)
        elif isinstance(chunk, ToolCallDelta):
            self._tool_call_delta(chunk)
        elif isinstance(chunk, BlockStart):
            self._partial(chunk.index, chunk.block_type)
        elif isinstance(chunk, BlockEnd):
            partial = self._partial(chunk.index, chunk.block.type)
            if partial.done is None:
                partial.done = chunk.block
        elif isinstance(chunk, UsageChunk):
            self.usage = chunk.usage
        elif isinstance(chunk, FinishChunk):
            self._finish = chunk.finish
        else:
            raise ValueError(f"chunk of unknown type {type(chunk).__name__}")

    @property
    def finish(self) -> Finish:
        """The last finish; stop if there was none."""
        return Finish.stop() if self._finish is None else self._finish

    def blocks(self) -> tuple[Block, ...]:
        """The blocks in the order their indexes were first seen; repeatable.

        After `max-tokens` tool calls are left out: they may be cut. Raises ValueError if a block of
        unknown type was not ended.
        """
        return tuple(block for block, kept in self._assembled() if kept)

    def interrupted_blocks(self) -> tuple[Block, ...]:
        """Text and reasoning so far, complete or not, that is more than white space."""
        return tuple(
            block
            for index, partial in self._partials.items()
            if partial.block_type in ("text", "reasoning")
            and isinstance(block := partial.block(index), TextBlock | ReasoningBlock)
            and block.text.strip()
        )

    @property
    def replay_state(self) -> Mapping[str, object] | None:
        """The finish's opaque state; entries of left-out blocks are gone from its `blocks`.

        None if it has entries per block and their number is not that of the blocks.
        """
        state = self.finish.replay_state
        if state is None or "blocks" not in state:
            return state
        entries = state["blocks"]
        assembled = self._assembled()
        if not isinstance(entries, list | tuple) or len(entries) != len(assembled):
            return None
        kept = [entry for entry, (_, keep) in zip(entries, assembled, strict=True) if keep]
        return {**state, "blocks": kept}

    def _assembled(self) -> list[tuple[Block, bool]]:
        cut = self.finish.kind == "max-tokens"
        blocks = [partial.block(index) for index, partial in self._partials.items()]
        return [(block, not (cut and isinstance(block, ToolCallBlock))) for block in blocks]

    def _partial(self, index: int, block_type: str) -> _Partial:
        partial = self._partials.get(index)
        if partial is None:
            partial = self._partials[index] = _Partial(block_type)
        return partial

    def _delta(self, index: int, block_type: str, text: str) -> None:
        partial = self._partial(index, block_type)
        if partial.done is None:
            partial.pieces.append(text)

    def _tool_call_delta(self, chunk: ToolCallDelta) -> None:
        partial = self._partial(chunk.index, "tool-call")
        if partial.done is not None:
            return
        partial.id = partial.id or chunk.id
        partial.name = partial.name or chunk.name or ""
        partial.pieces.append(chunk.arguments_delta)
