"""Models behind the OpenAI chat-completions wire."""

from ._config import OpenAiConfig
from ._plugin import llm_openai

__all__ = ["OpenAiConfig", "llm_openai"]
