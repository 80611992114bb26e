"""Two tools to start with: `add` and `now`."""

from ._plugin import add, now, tools_demo

__all__ = ["add", "now", "tools_demo"]
