"""Stops tool calls that take too long."""

from ._plugin import TOOL_TIMEOUT, ToolTimeoutConfig, tool_timeout

__all__ = ["TOOL_TIMEOUT", "ToolTimeoutConfig", "tool_timeout"]
