"""What the requests of a session have used: a fold over its log."""

from dataclasses import dataclass

from terret_llm import FinishChunk, Usage, UsageChunk
from terret_sessions import (
    AssistantChunk,
    RequestContext,
    Session,
    SessionEvent,
    StepEnd,
    TurnStart,
)

from ._config import UsageLimitConfig


@dataclass(slots=True)
class Spent:
    """Tokens and cost so far."""

    tokens: int = 0
    cost: float = 0.0

    def add(self, tokens: int, cost: float) -> None:
        self.tokens += tokens
        self.cost += cost


class Ledger:
    """Counts each attempt once: at its finish, or at the end of its step if it was cut off.

    Attributes:
        session: What the session has used; what a fork took over is not its own.
        turn: What the last turn has used.
    """

    def __init__(self, session: Session, config: UsageLimitConfig) -> None:
        self.session = Spent()
        self.turn = Spent()
        self._config = config
        self._own = session.header.seed_length or 0
        self._route = ("", "")
        self._open: Usage | None = None
        for event in session.events:
            self.add(event)

    def add(self, event: SessionEvent) -> None:
        """Takes the next event of the log."""
        payload = event.view
        if type(payload) is AssistantChunk:  # by far the most frequent
            if type(payload.chunk) is UsageChunk:
                self._open = payload.chunk.usage
            elif type(payload.chunk) is FinishChunk:
                self._settle(event.seq)
        elif type(payload) is StepEnd:
            self._settle(event.seq)
        elif type(payload) is RequestContext:
            self._route = (payload.provider, payload.model)
        elif type(payload) is TurnStart:
            self.turn = Spent()

    def _settle(self, seq: int) -> None:
        usage, self._open = self._open, None
        if usage is None or seq < self._own:
            return
        price = self._config.price(*self._route)
        cost = 0.0 if price is None else price.of(usage)
        tokens = usage.input_tokens + usage.output_tokens
        tokens += (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
        self.session.add(tokens, cost)
        self.turn.add(tokens, cost)
