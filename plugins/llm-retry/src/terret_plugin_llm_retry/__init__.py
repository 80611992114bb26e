"""Repeats failed requests to models as the policy of their provider says."""

from ._events import LlmRetry, LlmRetryStarted
from ._plugin import llm_retry

__all__ = ["LlmRetry", "LlmRetryStarted", "llm_retry"]
