"""Messages, chunks, adapters and errors: how Terret talks to language models."""

from ._adapter import BoundCall, LlmAdapter
from ._assembler import BlockAssembler
from ._blocks import (
    Block,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    UnknownBlock,
    block_from_wire,
)
from ._chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    FinishChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
    chunk_from_wire,
    chunk_json,
)
from ._credentials import checked_api_key, user_agent
from ._errors import HarnessError, LlmError, error_chain, failure_of
from ._events import ADAPTERS_UPDATED, STREAM, AdaptersUpdated, Chunks
from ._messages import (
    Message,
    MessageCodec,
    Role,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
    message_from_wire,
)
from ._models import ModelInfo, ProviderInfo
from ._outcomes import (
    Finish,
    LlmFailure,
    Usage,
    failure_from_wire,
    finish_from_wire,
    usage_from_wire,
)
from ._registry import AdapterRegistration, DuplicateAdapterError, NoAdapterError
from ._requests import (
    GenerateOptions,
    LlmCallConfig,
    Purpose,
    ToolCodec,
    ToolSchema,
    call_config_from_wire,
    is_loop_request,
    mark_loop_request,
    tool_schema_from_wire,
)
from ._retry_policy import RetryPolicy
from ._service import Llm, PreparedCall
from ._slotted import slotted
from ._sources import (
    ModelSource,
    PluginSource,
    Source,
    ToolSource,
    UnknownSource,
    UserSource,
    source_from_wire,
)
from ._text import replace_surrogates

__all__ = [
    "ADAPTERS_UPDATED",
    "STREAM",
    "AdapterRegistration",
    "AdaptersUpdated",
    "Block",
    "BlockAssembler",
    "BlockEnd",
    "BlockStart",
    "BoundCall",
    "Chunk",
    "Chunks",
    "DuplicateAdapterError",
    "Finish",
    "FinishChunk",
    "GenerateOptions",
    "HarnessError",
    "Llm",
    "LlmAdapter",
    "LlmCallConfig",
    "LlmError",
    "LlmFailure",
    "Message",
    "MessageCodec",
    "ModelInfo",
    "ModelSource",
    "NoAdapterError",
    "PluginSource",
    "PreparedCall",
    "ProviderInfo",
    "Purpose",
    "ReasoningBlock",
    "ReasoningDelta",
    "RetryPolicy",
    "Role",
    "Source",
    "TextBlock",
    "TextDelta",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolCodec",
    "ToolResultBlock",
    "ToolSchema",
    "ToolSource",
    "UnknownBlock",
    "UnknownSource",
    "Usage",
    "UsageChunk",
    "UserSource",
    "block_from_wire",
    "call_config_from_wire",
    "checked_api_key",
    "chunk_from_wire",
    "chunk_json",
    "create_assistant_message",
    "create_tool_result_message",
    "create_user_message",
    "error_chain",
    "failure_from_wire",
    "failure_of",
    "finish_from_wire",
    "is_loop_request",
    "mark_loop_request",
    "message_from_wire",
    "replace_surrogates",
    "slotted",
    "source_from_wire",
    "tool_schema_from_wire",
    "usage_from_wire",
    "user_agent",
]
