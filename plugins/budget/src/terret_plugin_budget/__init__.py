"""Measures each model call against the context budget, and tells the model when it runs low."""

from ._config import BudgetConfig
from ._service import UNKNOWN_WINDOW, Budget

__all__ = ["UNKNOWN_WINDOW", "Budget", "BudgetConfig"]
