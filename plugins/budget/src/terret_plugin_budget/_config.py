"""The settings of the plugin."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from terret_context import Config


class BudgetConfig(Config):
    """Settings of the entry `budget`."""

    context_budget_tokens: PositiveInt | Literal["auto"] = "auto"
    """Tokens that a request may have; `auto` is the model's window without room for its answer."""
    soft: float = Field(default=0.70, gt=0, lt=1)
    """Part of the budget from which the model is told to be brief."""
    hard: float = Field(default=0.92, gt=0, le=1)
    """Part of the budget from which the history has to be shortened."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if self.soft >= self.hard:
            raise ValueError(f"soft ({self.soft}) has to be below hard ({self.hard})")
        return self
