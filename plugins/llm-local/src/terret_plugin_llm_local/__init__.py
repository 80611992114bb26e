"""A small language model inside the process, so that the first run needs no account."""

from ._adapter import LocalAdapter
from ._config import LlmLocalConfig
from ._install import install_weights
from ._plugin import llm_local

__all__ = [
    "LlmLocalConfig",
    "LocalAdapter",
    "install_weights",
    "llm_local",
]
