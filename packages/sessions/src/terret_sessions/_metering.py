from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from terret_context import ServiceKey
from terret_llm import Message

from ._session import Session


@dataclass(frozen=True, slots=True)
class Measurement:
    """How many tokens the next request of a session has, by its parts.

    The parts are estimated. `total` rests on the provider's own count of an earlier request, if
    `counted` is true, and on the estimates of what changed since; else it is their sum.
    """

    total: int
    system: int
    tools: int
    prefix: int
    surface: tuple[tuple[int, int], ...]
    """For each node of the surface, in order: its seq and its tokens."""
    counted: bool


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What all requests of a session have cost so far; the input buckets are disjoint."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ContextPressure:
    """How full the model's context was at the last request; `ratio` is between 0 and 1."""

    used_tokens: int
    capacity: int | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class ContextBreakdown:
    """What the next request consists of, in estimated tokens."""

    system: int = 0
    tools: int = 0
    prefix: int = 0
    user: int = 0
    assistant: int = 0
    tool_results: int = 0


class TokenMeter(ABC):
    """Measures sessions: what `ctx.get(TOKEN_METER)` offers.

    Every method follows the log up to now and returns a value that does not change later. Raises
    ValueError, each time, for a log that cannot be followed.
    """

    @abstractmethod
    def measure(
        self, session: Session, *, replaced: Mapping[int, Sequence[Message]] | None = None
    ) -> Measurement:
        """The tokens of the next request.

        With `replaced` as if those nodes of the surface, by their seq, were these messages; the
        parts of the surface are those of the log all the same. Raises ValueError for a seq that is
        no node.
        """

    @abstractmethod
    def usage(self, session: Session) -> TokenUsage:
        """What the session has cost; failed and repeated requests count."""

    @abstractmethod
    def pressure(self, session: Session) -> ContextPressure | None:
        """How full the context is; None before a provider has counted a request."""

    @abstractmethod
    def breakdown(self, session: Session) -> ContextBreakdown:
        """What the next request consists of."""

    @abstractmethod
    def checkpoint(self, session: Session) -> dict[str, object]:
        """Usage, pressure and breakdown as JSON, whose size does not grow with the log."""

    @abstractmethod
    def restore(self, session: Session, checkpoint: Mapping[str, object]) -> None:
        """Go on from a checkpoint of the same log. Raises ValueError for anything else."""


TOKEN_METER: Final = ServiceKey[TokenMeter]("tokenMeter")
"""Optional: without the plugin `token-meter`, or another one, nobody measures."""
