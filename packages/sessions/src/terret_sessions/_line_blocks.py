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
    """The rows of events, in blocks of a few hundred. A large seed does not hold up everybody."""
    blocks = []
    for start in range(0, len(events), _EVENTS_IN_BLOCK):
        if start % _EVENTS_BETWEEN_CHECKPOINTS == _EVENTS_IN_BLOCK:
            await checkpoint()
        part = events[start : start + _EVENTS_IN_BLOCK]
        seqs = range(part[0].seq, part[-1].seq + 1)
        blocks.append(LineBlock(seqs, b"".join(event_lines(part))))
    return blocks


_EVENTS_IN_BLOCK: Final = 250  # which stay in the processor's cache
_EVENTS_BETWEEN_CHECKPOINTS: Final = 2000
