import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, final

from terret_llm._blocks import Block, ReasoningBlock, ToolCallBlock, ToolResultBlock
from terret_llm._messages import Message, Role
from terret_llm._requests import GenerateOptions, ToolSchema
from terret_llm._sources import ModelSource
from terret_llm.wire import dump_json, history_parts, object_text, without_lone_escapes

from ._dialect import OFF, ChatDialect

NO_OUTPUT: Final = "(no output)"
_ODD_NAME = re.compile(r"[^\w.\-]", re.ASCII)


@final
class ChatCodec:
    """Encodes requests for the chat-completions wire of one dialect.

    What a message's bytes depend on is the codec's `key`, so codecs of equal key share what is
    kept with the message.
    """

    separator: Final = b","

    def __init__(self, dialect: ChatDialect | None = None) -> None:
        self._dialect = dialect = dialect or ChatDialect()
        self.key: Hashable = (
            "chat",
            dialect.replay_reasoning,
            dialect.empty_content,
            dialect.call_ids,
        )

    def encode_request(
        self, request: GenerateOptions, *, extra: Mapping[str, object] | None = None
    ) -> bytes:
        """The body of a streaming request.

        The messages come last, so that a request is a byte prefix of the next one up to its last
        message. `extra` adds top-level keys; null takes a key away.
        """
        fields = self._fields(request) | dict(extra or {})
        head = dump_json({key: value for key, value in fields.items() if value is not None})
        tools = b",".join(tool.encoded(self) for tool in request.tools)
        parts, _ = history_parts(request.messages, self)
        if request.system:
            system = {"role": self._dialect.system_role, "content": request.system}
            parts.insert(0, dump_json(system))
        begin = head[:-1] + (b',"tools":[' + tools + b"]" if tools else b"") + b',"messages":['
        if not parts:
            return begin + b"]}"
        parts[0] = begin + parts[0]
        parts[-1] += b"]}"
        return self.separator.join(parts)  # the one copy of a long conversation

    def encode_tool(self, tool: ToolSchema) -> bytes:
        """One entry of `tools`."""
        return dump_json({"type": "function", "function": tool.to_wire()})

    def encode_message(self, message: Message) -> bytes:
        """The entries of `messages` for one message, joined by commas; some messages have none."""
        return b",".join(dump_json(entry) for entry in self._entries(message))

    def append(self, parts: list[bytes], wire: bytes, role: Role, before: Role | None) -> None:
        """Add the entries of a message to those in front of it."""
        parts.append(wire)

    def _fields(self, request: GenerateOptions) -> dict[str, object]:
        dialect, effort = self._dialect, request.reasoning_effort
        if request.purpose == "session-title" and dialect.reasoning_style != "effort":
            effort = OFF
        return {
            "model": request.model,
            "stream": True,
            "stream_options": {"include_usage": True} if dialect.stream_usage else None,
            **dialect.effort_fields(effort),
            "temperature": request.temperature,
            dialect.max_tokens_field: request.max_tokens,
            "stop": request.stop or None,
        }

    def _entries(self, message: Message) -> Iterator[dict[str, object]]:
        if message.role == "assistant":
            yield from self._assistant(message)
            return
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        for result in results:
            yield {
                "role": "tool",
                "tool_call_id": self._dialect.call_id(result.tool_call_id),
                "content": result.text or NO_OUTPUT,
            }
        if message.text or not results:
            yield {"role": message.role, "content": message.text}

    def _assistant(self, message: Message) -> Iterator[dict[str, object]]:
        calls = self._calls(message)
        if not calls and not message.text:
            return
        entry: dict[str, object] = {"role": "assistant", "content": message.text}
        if not message.text and self._dialect.empty_content != "empty":
            entry["content"] = None
            if self._dialect.empty_content == "absent":
                del entry["content"]
        entry |= self._reasoning(message, bool(calls))
        if calls:
            entry["tool_calls"] = calls
        yield entry

    def _reasoning(self, message: Message, has_calls: bool) -> dict[str, object]:
        name = self._dialect.replay_reasoning
        if name is None:
            return {}
        if name == "reasoning_details":
            details = _response_state(message).get(name)
            return {name: details} if details else {}
        text = "".join(block.text for block in message.content if isinstance(block, ReasoningBlock))
        # An answer of another model has none, and servers that want it refuse a call without it.
        return {name: text} if text or has_calls else {}

    def _calls(self, message: Message) -> list[dict[str, object]]:
        entries = _block_states(message)
        return [
            {**self._call(block), **entry}
            for block, entry in zip(message.content, entries, strict=True)
            if isinstance(block, ToolCallBlock)
        ]

    def _call(self, block: ToolCallBlock) -> dict[str, object]:
        """The call as its provider will accept it again, even if the model had garbled it."""
        return {
            "id": self._dialect.call_id(block.id),
            "type": "function",
            "function": {
                "name": _ODD_NAME.sub("_", block.name) or "unknown",
                "arguments": object_text(without_lone_escapes(block.arguments)) or "{}",
            },
        }


def _response_state(message: Message) -> Mapping[str, object]:
    source = message.source
    state = source.replay_state if isinstance(source, ModelSource) else None
    response = None if state is None else state.get("response")
    return response if isinstance(response, Mapping) else {}


def _block_states(message: Message) -> Sequence[Mapping[str, object]]:
    """What the server wants back with each block, by position; nothing if that is not known."""
    source, content = message.source, message.content
    state = source.replay_state if isinstance(source, ModelSource) else None
    entries = None if state is None else state.get("blocks")
    if not isinstance(entries, list | tuple) or len(entries) != len(content):
        return _nothing(content)
    return [entry if isinstance(entry, Mapping) else {} for entry in entries]


def _nothing(content: tuple[Block, ...]) -> Sequence[Mapping[str, object]]:
    return [{}] * len(content)
