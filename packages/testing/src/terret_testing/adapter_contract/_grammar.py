from collections.abc import Iterable, Iterator

from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    FinishChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)


def grammar_faults(chunks: Iterable[Chunk]) -> Iterator[str]:
    """Says what is wrong with the order of a stream's chunks; nothing for a good one.

    Per index a start precedes its deltas and there is at most one end, with nothing behind it. One
    finish ends the stream. Usage stands before it.
    """
    started: dict[int, str] = {}
    ended: set[int] = set()
    finished = False
    for number, chunk in enumerate(chunks):
        place = f"chunk {number} ({chunk.type})"
        if finished:
            yield f"{place} comes after the finish"
        if isinstance(chunk, FinishChunk):
            finished = True
        elif not isinstance(chunk, UsageChunk):
            yield from _block_faults(chunk, place, started, ended)
    if not finished:
        yield "there is no finish"


def _block_faults(
    chunk: BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd,
    place: str,
    started: dict[int, str],
    ended: set[int],
) -> Iterator[str]:
    index = chunk.index
    if index in ended:
        yield f"{place} belongs to block {index}, which has ended"
    if isinstance(chunk, BlockStart):
        if index in started:
            yield f"{place} starts block {index} again"
        started[index] = chunk.block_type
    elif index not in started:
        yield f"{place} belongs to block {index}, which has not started"
    elif isinstance(chunk, BlockEnd):
        ended.add(index)
        if chunk.block.type != started[index]:
            yield f"{place} ends a {started[index]} block with {chunk.block.type}"
    elif started[index] != _KINDS[type(chunk)]:
        yield f"{place} is in a {started[index]} block"


_KINDS = {TextDelta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "tool-call"}
