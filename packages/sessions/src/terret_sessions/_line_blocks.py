from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from anyio.lowlevel import checkpoint

from ._encoding import event_lines
from ._events import SessionEvent


@dataclass(frozen=True, slots=True)
class LineBlock:
    """The rows of neighbouring events, each with its line break."""

    seqs: range
    lines: bytes


async def line_blocks(events: Sequence[SessionEvent]) -> list[LineBlock]:
    """The rows of events, in blocks of a few hundred; large events have one of their own.

    A large seed does not hold up everybody.
    """
    blocks: list[LineBlock] = []
    for start in range(0, len(events), _EVENTS_IN_BLOCK):
        if start % _EVENTS_BETWEEN_CHECKPOINTS == _EVENTS_IN_BLOCK:
            await checkpoint()
        lines = event_lines(events[start : start + _EVENTS_IN_BLOCK])
        first = events[start].seq
        if sum(map(len, lines)) <= _BYTES_IN_BLOCK:
            blocks.append(LineBlock(range(first, first + len(lines)), b"".join(lines)))
        else:
            blocks += [LineBlock(range(n, n + 1), line) for n, line in enumerate(lines, first)]
    return blocks


_EVENTS_IN_BLOCK: Final = 250  # which stay in the processor's cache
_EVENTS_BETWEEN_CHECKPOINTS: Final = 2000
_BYTES_IN_BLOCK: Final = 1 << 20
