"""An agent loop in which the model acts by writing Python."""

from ._plugin import LoopCodeActConfig, loop_codeact

__all__ = ["LoopCodeActConfig", "loop_codeact"]
