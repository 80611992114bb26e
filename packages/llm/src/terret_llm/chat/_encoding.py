import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Literal, final

from terret_llm._blocks import Block, ReasoningBlock, ToolCallBlock, ToolResultBlock
from terret_llm._messages import Message
from terret_llm._requests import GenerateOptions, ToolSchema

from ._json import dump, object_text, without_lone_escapes

NO_OUTPUT: Final = "(no output)"
_ODD_NAME = re.compile(r"[^\w.\-]", re.ASCII)


@final
class ChatCodec:
    """Encodes requests for the chat-completions wire.

    `replay_reasoning` sends the model's reasoning back to it as `reasoning_content`, as thinking
    models of some providers require; others refuse the field. `max_tokens_field` is the name of
    the output cap. What a message's bytes depend on is the codec's `key`, so codecs of equal key
    share what is kept with the message.
    """

    def __init__(
        self,
        *,
        replay_reasoning: bool = False,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
    ) -> None:
        self._replay_reasoning = replay_reasoning
        self._max_tokens_field = max_tokens_field
        self.key: Hashable = ("chat", replay_reasoning)

    def encode_request(
        self, request: GenerateOptions, *, extra: Mapping[str, object] | None = None
    ) -> bytes:
        """The body of a streaming request.

        The messages come last, so that a request is a byte prefix of the next one up to its last
        message. `extra` adds top-level keys; null takes a key away.
        """
        fields = self._fields(request) | dict(extra or {})
        head = dump({key: value for key, value in fields.items() if value is not None})
        tools = b",".join(tool.encoded(self) for tool in request.tools)
        messages = [message.encoded(self) for message in request.messages]
        if request.system:
            messages.insert(0, dump({"role": "system", "content": request.system}))
        return b"".join(
            (
                head[:-1],
                b',"tools":[' + tools + b"]" if tools else b"",
                b',"messages":[',
                b",".join(filter(None, messages)),
                b"]}",
            )
        )

    def encode_tool(self, tool: ToolSchema) -> bytes:
        """One entry of `tools`."""
        return dump({"type": "function", "function": tool.to_wire()})

    def encode_message(self, message: Message) -> bytes:
        """The entries of `messages` for one message, joined by commas; some messages have none."""
        entries = self._entries(message)
        return b",".join(dump(entry) for entry in entries)

    def _fields(self, request: GenerateOptions) -> dict[str, object]:
        return {
            "model": request.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "reasoning_effort": request.reasoning_effort,
            "temperature": request.temperature,
            self._max_tokens_field: request.max_tokens,
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
                "tool_call_id": result.tool_call_id,
                "content": result.text or NO_OUTPUT,
            }
        if message.text or not results:
            yield {"role": message.role, "content": message.text}

    def _assistant(self, message: Message) -> Iterator[dict[str, object]]:
        calls = [_call(block) for block in message.tool_calls]
        if not calls and not message.text:
            return
        entry: dict[str, object] = {"role": "assistant", "content": message.text}
        reasoning = _reasoning(message.content) if self._replay_reasoning else ""
        if reasoning:
            entry["reasoning_content"] = reasoning
        if calls:
            entry["tool_calls"] = calls
        yield entry


def _call(block: ToolCallBlock) -> dict[str, object]:
    """The call as its provider will accept it again, even if the model had garbled it."""
    return {
        "id": block.id,
        "type": "function",
        "function": {
            "name": _ODD_NAME.sub("_", block.name) or "unknown",
            "arguments": object_text(without_lone_escapes(block.arguments)) or "{}",
        },
    }


def _reasoning(content: tuple[Block, ...]) -> str:
    return "".join(block.text for block in content if isinstance(block, ReasoningBlock))
