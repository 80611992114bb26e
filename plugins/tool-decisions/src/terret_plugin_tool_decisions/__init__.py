"""Records what was decided about each tool call."""

from ._plugin import tool_decisions

__all__ = ["tool_decisions"]
