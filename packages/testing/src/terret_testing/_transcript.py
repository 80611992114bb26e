"""A session as lines that a test can compare."""

from collections.abc import Iterable, Iterator

from terret_llm import Message, PluginSource, ToolResultBlock
from terret_sessions import AssistantMessage, SessionEvent, ToolResult


def transcript(events: Iterable[SessionEvent]) -> tuple[str, ...]:
    """Returns one line for each thing that was said, called or answered.

    `user: text`, `plugin NAME: text`, `assistant: text`, `call: NAME ARGUMENTS`, `result: text`
    and `error: text`, in the order of the log.
    """
    return tuple([line for event in events for line in _lines(event.view)])


def _lines(payload: object) -> Iterator[str]:
    if isinstance(payload, Message):
        source = payload.source
        who = f"plugin {source.plugin}" if isinstance(source, PluginSource) else payload.role
        yield f"{who}: {payload.text}"
    elif isinstance(payload, AssistantMessage):
        if payload.message.text:
            yield f"assistant: {payload.message.text}"
        for call in payload.message.tool_calls:
            yield f"call: {call.name} {call.arguments}"
    elif isinstance(payload, ToolResult):
        for block in payload.message.content:
            if isinstance(block, ToolResultBlock):
                yield f"{'error' if block.is_error else 'result'}: {block.text}"
