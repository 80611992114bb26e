"""Records what was decided about each tool call."""

from ._plugin import ToolDecision, tool_decisions

__all__ = ["ToolDecision", "tool_decisions"]
