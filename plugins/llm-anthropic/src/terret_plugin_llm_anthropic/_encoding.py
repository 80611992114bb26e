import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, final

from terret_llm import (
    Block,
    GenerateOptions,
    Message,
    ModelSource,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
    UnknownBlock,
)
from terret_llm.wire import (
    dump_json,
    fitting_id,
    history_parts,
    object_text,
    without_lone_escapes,
)

NO_OUTPUT: Final = "(no output)"
NO_TEXT: Final = "(empty)"
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ODD_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@final
class MessagesCodec:
    """Encodes requests for the Messages wire.

    A message is encoded as the blocks of its content; messages of one role that follow each other
    become one, since the wire wants roles to alternate.
    """

    key: Hashable = "anthropic messages"
    separator: Final = b""

    def __init__(self, *, cache: Mapping[str, object] | None = None) -> None:
        self._cache = cache

    def encode_request(self, request: GenerateOptions, fields: Mapping[str, object]) -> bytes:
        """The body of a request with these top-level fields, its messages last.

        `tools` among the fields are those that the provider runs; they stand in front of ours.
        """
        known = {key: value for key, value in fields.items() if value is not None}
        tools = self._tools(request, known.pop("tools", ()))
        head = dump_json(known)
        parts, is_answer = history_parts(request.messages, self)
        if parts and not is_answer and self._cache is not None:
            parts[-1] = self._marked(parts[-1])
        return b"".join(
            (
                head[:-1],
                b',"tools":[' + tools + b"]" if tools else b"",
                b',"messages":[',
                *parts,
                b"]}" if parts else b"",
                b"]}",
            )
        )

    def system(self, text: str | None) -> list[dict[str, object]] | None:
        """The system prompt, marked for the cache: it stands behind the tools, which it covers."""
        if not text or not text.strip():
            return None
        block: dict[str, object] = {"type": "text", "text": text}
        return [block if self._cache is None else block | {"cache_control": self._cache}]

    def encode_tool(self, tool: ToolSchema) -> bytes:
        """One entry of `tools`."""
        return dump_json(
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": dict(tool.parameters),
            }
        )

    def encode_message(self, message: Message) -> bytes:
        """The blocks of a message, joined by commas; some messages have none."""
        if message.role == "assistant":
            return b",".join(_answer_blocks(message))
        return b",".join(map(dump_json, _input_blocks(message)))

    def append(self, parts: list[bytes], wire: bytes, role: Role, before: Role | None) -> None:
        """Add the blocks of a message to the last one, if it is of the same side, or open one."""
        side = _side(role)
        if before is None:
            parts.append(b'{"role":"%b","content":[' % side)
        elif _side(before) == side:
            parts.append(b",")
        else:
            parts.append(b']},{"role":"%b","content":[' % side)
        parts.append(wire)

    def _tools(self, request: GenerateOptions, provided: object) -> bytes:
        tools = [dump_json(tool) for tool in provided] if isinstance(provided, list) else []
        tools += [tool.encoded(self) for tool in request.tools]
        if tools and self._cache is not None and not request.system:
            tools[-1] = self._marked(tools[-1])
        return b",".join(tools)

    def _marked(self, wire: bytes) -> bytes:
        """The wire with its last block marked: what is up to there will be asked for again."""
        return wire[:-1] + b',"cache_control":' + dump_json(self._cache) + b"}"


def _side(role: Role) -> bytes:
    return b"assistant" if role == "assistant" else b"user"


def _input_blocks(message: Message) -> Iterator[dict[str, object]]:
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    for result in results:
        text = result.text if result.text.strip() else NO_OUTPUT
        wire: dict[str, object] = {
            "type": "tool_result",
            "tool_use_id": _call_id(result.tool_call_id),
            "content": [{"type": "text", "text": text}],
        }
        yield wire | ({"is_error": True} if result.is_error else {})
    text = message.text
    if text.strip() or not results:
        yield {"type": "text", "text": text if text.strip() else NO_TEXT}


def _answer_blocks(message: Message) -> list[bytes]:
    states = _states(message)
    wires: list[bytes] = []
    is_thought: list[bool] = []
    for position, block in enumerate(message.content):
        wire = _answer_block(block, None if states is None else states[position])
        if wire:
            wires.append(wire)
            is_thought.append(isinstance(block, ReasoningBlock))
    while is_thought and is_thought.pop():
        wires.pop()  # an answer must not end with a thought
    return wires


def _answer_block(block: Block, state: Mapping[str, object] | None) -> bytes:
    """The block as the provider sent it. `state` is what it wants back; None: another's answer."""
    if isinstance(block, ToolCallBlock):
        return _tool_use(block)
    if isinstance(block, TextBlock):
        if not block.text.strip():
            return b""
        return dump_json({"type": "text", "text": block.text, **(state or {})})
    if isinstance(block, ReasoningBlock) and state is not None and state.get("signature"):
        return dump_json({"type": "thinking", "thinking": block.text, **state})
    if isinstance(block, UnknownBlock) and state is not None:
        return dump_json(dict(block.data))
    return b""


def _tool_use(block: ToolCallBlock) -> bytes:
    """The call as the provider will accept it again, even if the model had garbled it."""
    head = dump_json(
        {
            "type": "tool_use",
            "id": _call_id(block.id),
            "name": _ODD_NAME.sub("_", block.name) or "unknown",
        }
    )
    arguments = object_text(without_lone_escapes(block.arguments)) or "{}"
    return head[:-1] + b',"input":' + arguments.encode("utf-8", "replace") + b"}"


def _call_id(id: str) -> str:
    return fitting_id(id, _ID, length=24)


def _states(message: Message) -> Sequence[Mapping[str, object]] | None:
    """What the provider wants back with each block; None if it is not its own answer."""
    source = message.source
    state = source.replay_state if isinstance(source, ModelSource) else None
    entries = None if state is None else state.get("blocks")
    if not isinstance(entries, list | tuple) or len(entries) != len(message.content):
        return None
    return [entry if isinstance(entry, Mapping) else {} for entry in entries]
