"""The default agent loop: call the model, run the tools, repeat."""

from ._service import AgentLoop, AgentLoopConfig

__all__ = ["AgentLoop", "AgentLoopConfig"]
