"""Limits and prices."""

from typing import Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from terret_context import Config
from terret_llm import Usage

PER = 1_000_000  # tokens to which a price refers


class SessionLimits(Config):
    """What all requests of a session may use together."""

    tokens: PositiveInt | None = None
    """Tokens, cached ones included."""
    cost: PositiveFloat | None = None
    """Cost, in the currency of the prices."""


class TurnLimits(SessionLimits):
    """What a turn may use."""

    seconds: PositiveFloat | None = None
    """Time on the clock; a turn that takes longer is cancelled."""


class Price(Config):
    """What a million tokens of a route cost."""

    input: NonNegativeFloat
    """Tokens of the request that were in no cache."""
    output: NonNegativeFloat
    """Tokens of the answer, reasoning included."""
    cache_read: NonNegativeFloat | None = None
    """Tokens read from the provider's cache; left out, as `input`."""
    cache_write: NonNegativeFloat | None = None
    """Tokens written to the provider's cache; left out, as `input`."""

    def of(self, usage: Usage) -> float:
        """Returns the cost of one request."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        cost = usage.input_tokens * self.input + usage.output_tokens * self.output
        cost += (usage.cache_read_tokens or 0) * read + (usage.cache_write_tokens or 0) * write
        return cost / PER


class UsageLimitConfig(Config):
    """Configuration of the entry `usage-limit`."""

    turn: TurnLimits = TurnLimits()
    """Limits of each turn."""
    session: SessionLimits = SessionLimits()
    """Limits of each session."""
    prices: dict[str, Price] = Field(default={})
    """Prices of `provider/model`, or of all models of a `provider`."""

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.limits_cost and not self.prices:
            raise ValueError("a limit on the cost needs `prices`")
        return self

    @property
    def limits_cost(self) -> bool:
        """Whether any limit is one on the cost."""
        return self.turn.cost is not None or self.session.cost is not None

    def price(self, provider: str, model: str) -> Price | None:
        """Returns the price of a route."""
        return self.prices.get(f"{provider}/{model}") or self.prices.get(provider)
