"""Ends turns that use too many tokens, too much money or too much time."""

from ._config import Price, SessionLimits, TurnLimits, UsageLimitConfig
from ._plugin import usage_limit

__all__ = ["Price", "SessionLimits", "TurnLimits", "UsageLimitConfig", "usage_limit"]
