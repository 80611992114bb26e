from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol, cast
from uuid import uuid4

from ._blocks import Block, TextBlock, ToolCallBlock, ToolResultBlock, blocks_from_wire, joined_text
from ._reading import as_object, only, required
from ._slotted import slotted
from ._sources import ModelSource, Source, ToolSource, UserSource, source_from_wire
from ._text import refuse_surrogates

Role = Literal["system", "user", "assistant"]
Content = str | Iterable[Block]


class MessageCodec(Protocol):
    """Translates messages to one provider wire. Codecs of equal `key` give equal bytes."""

    @property
    def key(self) -> Hashable:
        """What the encoded form depends on besides the message."""
        ...

    def encode_message(self, message: "Message") -> bytes:
        """The message as the provider's JSON."""
        ...


@slotted
class Message:
    """One message of a conversation: input, log entry and part of a request alike."""

    id: str
    role: Role
    content: tuple[Block, ...]
    source: Source
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _stateless: "Message | None" = field(default=None, init=False, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return joined_text(self.content)

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The tool-call blocks, in the model's order."""
        return tuple(block for block in self.content if type(block) is ToolCallBlock)

    def encoded(self, codec: MessageCodec) -> bytes:
        """The message on `codec`'s wire. It is encoded once per codec key and kept."""
        wire: bytes | None = self._kept.get(codec.key)
        if wire is None:
            wire = self._kept[codec.key] = codec.encode_message(self)
        return wire

    def without_replay_state(self) -> "Message":
        """The message as an adapter sees it that did not produce it. Built once and kept."""
        source = self.source
        if type(source) is not ModelSource or source.replay_state is None:
            return self
        if self._stateless is None:
            plain = ModelSource(source.provider, source.model)
            stateless = Message(self.id, self.role, self.content, plain)
            object.__setattr__(self, "_stateless", stateless)
            return stateless
        return self._stateless

    def to_wire(self) -> dict[str, object]:
        """The JSON object of the log."""
        return {
            "id": self.id,
            "role": self.role,
            "content": [block.to_wire() for block in self.content],
            "source": self.source.to_wire(),
        }


def create_user_message(content: Content, source: Source | None = None) -> Message:
    """A message for the model with a fresh id; without a source it is a person's.

    Raises ValueError if the text holds a lone surrogate, which no JSON wire can carry.
    """
    blocks = _blocks(content)
    for block in blocks:
        if type(block) is TextBlock:
            refuse_surrogates(block.text)
    return Message(_fresh_id(), "user", blocks, _USER if source is None else source)


def create_assistant_message(
    content: Content,
    provider: str,
    model: str,
    *,
    replay_state: Mapping[str, object] | None = None,
) -> Message:
    """A model's answer with a fresh id."""
    source = ModelSource(provider, model, replay_state)
    return Message(_fresh_id(), "assistant", _blocks(content), source)


def create_tool_result_message(
    call_id: str, content: Content, *, is_error: bool = False, id: str | None = None
) -> Message:
    """The answer to the tool call `call_id`: role user, one tool-result block, source tool.

    The id is fresh unless one is given; repair derives it from the log.
    """
    block = ToolResultBlock(call_id, _blocks(content), is_error)
    return Message(_fresh_id() if id is None else id, "user", (block,), ToolSource(call_id))


def message_from_wire(data: object) -> Message:
    """Read a message of the log; raises ValueError if it is malformed or has unknown keys."""
    wire = as_object(data, "message")
    only(wire, _MESSAGE_KEYS, "message")
    role = required(wire, "role", str, "message")
    if role not in _ROLES:
        raise ValueError(f"message: 'role' must be system, user or assistant, not {role!r}")
    return Message(
        required(wire, "id", str, "message"),
        cast("Role", role),
        blocks_from_wire(wire.get("content"), "message: 'content'"),
        source_from_wire(wire.get("source")),
    )


def _blocks(content: Content) -> tuple[Block, ...]:
    return (TextBlock(content),) if isinstance(content, str) else tuple(content)


def _fresh_id() -> str:
    return str(uuid4())


_USER = UserSource()
_ROLES = frozenset({"system", "user", "assistant"})
_MESSAGE_KEYS = frozenset({"id", "role", "content", "source"})
