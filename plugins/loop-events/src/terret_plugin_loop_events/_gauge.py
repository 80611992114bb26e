"""How much of its budget each model call uses."""

from collections.abc import Mapping

from terret_llm import Usage

from .types import BudgetCheck


class Gauge:
    """Makes one `budget:check` for each model call, measured or from what is known anyway."""

    __slots__ = ("_measured", "_used", "window")

    def __init__(self) -> None:
        self.window = 0
        self._used = 0
        self._measured: Mapping[str, object] | None = None

    def measured(self, data: Mapping[str, object] | None) -> None:
        """Keeps a measurement for the next model call."""
        self._measured = data

    def used(self, usage: Usage) -> None:
        """Takes what a provider counted."""
        self._used = usage.input_tokens + usage.output_tokens

    def check(self) -> BudgetCheck:
        """Returns the check of the model call that comes now."""
        measured, self._measured = self._measured, None
        return (_check(measured) if measured else None) or {
            "type": "budget:check",
            "action": "ok",
            "usedTokens": self._used,
            "budgetTokens": self.window,
            "ratio": _ratio(self._used, self.window),
        }


def _check(data: Mapping[str, object]) -> BudgetCheck | None:
    used, budget, action = data.get("usedTokens"), data.get("budgetTokens"), data.get("action")
    if not isinstance(used, int | float) or not isinstance(budget, int | float):
        return None
    check: BudgetCheck = {
        "type": "budget:check",
        "action": action,  # type: ignore[typeddict-item]  # the log has the same words
        "usedTokens": used,
        "budgetTokens": budget,
        "ratio": _ratio(used, budget),
    }
    nudge = data.get("nudge")
    if isinstance(nudge, dict):
        check["nudge"] = {"role": str(nudge.get("role")), "content": str(nudge.get("content"))}
    return check


def _ratio(used: float, budget: float) -> float:
    return used / budget if budget else 0
