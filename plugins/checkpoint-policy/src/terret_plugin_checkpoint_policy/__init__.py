"""Flushes the session before a step, a request to a model and a tool body."""

from ._plugin import checkpoint_policy

__all__ = ["checkpoint_policy"]
