"""Ends a turn that takes too many steps."""

from ._plugin import StepLimitConfig, step_limit

__all__ = ["StepLimitConfig", "step_limit"]
