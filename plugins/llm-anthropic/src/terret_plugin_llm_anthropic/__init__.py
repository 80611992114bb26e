"""Models behind Anthropic's Messages API."""

from ._config import AnthropicConfig
from ._plugin import llm_anthropic

__all__ = ["AnthropicConfig", "llm_anthropic"]
