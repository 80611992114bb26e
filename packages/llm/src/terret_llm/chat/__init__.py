"""The chat-completions wire: requests to bytes, and the bytes of an answer to chunks."""

from ._body import ChatStream
from ._decoding import ChatDecoder
from ._encoding import ChatCodec
from ._failures import ProviderErrors, retry_after_ms

__all__ = ["ChatCodec", "ChatDecoder", "ChatStream", "ProviderErrors", "retry_after_ms"]
