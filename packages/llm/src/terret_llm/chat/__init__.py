"""The chat-completions wire: requests to bytes, and the payloads of an answer to chunks."""

from ._decoding import ChatDecoder
from ._dialect import ChatDialect, ReasoningStyle, ReplayedReasoning
from ._encoding import ChatCodec

__all__ = ["ChatCodec", "ChatDecoder", "ChatDialect", "ReasoningStyle", "ReplayedReasoning"]
