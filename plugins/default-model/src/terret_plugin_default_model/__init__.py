"""One model for all agents, which can be changed while they run."""

from ._plugin import DefaultModelConfig, default_model

__all__ = ["DefaultModelConfig", "default_model"]
