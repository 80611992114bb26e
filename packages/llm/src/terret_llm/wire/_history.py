from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from terret_llm._blocks import Block, ToolResultBlock
from terret_llm._folds import folded
from terret_llm._messages import Message, MessageCodec, Role, create_tool_result_message

_SEALED = 32
"""So many parts become one: joining is a matter of bytes then, and not of messages."""
NO_RESULT = "The call was interrupted. Whether it had an effect is not known."


class HistoryCodec(MessageCodec, Protocol):
    """A codec that joins the messages of a conversation."""

    @property
    def separator(self) -> bytes:
        """What stands between two parts."""
        ...

    def append(self, parts: list[bytes], wire: bytes, role: Role, before: Role | None) -> None:
        """Add an encoded message that follows one of role `before` to what will be joined."""
        ...


def history_parts(messages: Sequence[Message], codec: HistoryCodec) -> tuple[list[bytes], bool]:
    """The conversation on a wire, and whether it ends with an answer.

    It comes in parts, in a list of its own, to be joined with the codec's separator.

    Providers refuse a conversation in which a call has no result, or a result no call. A call
    that was never answered gets an error result, and a result without its call is left out. What
    was encoded for the last request is used again: the cost is that of the new messages.
    """
    history = folded(messages, ("history", codec.key), lambda: _History(codec))
    return history.closed()


class _History:
    """The parts of a conversation so far, and the calls that wait for a result."""

    def __init__(self, codec: HistoryCodec) -> None:
        self._codec = codec
        self._sealed: list[bytes] = []
        self._parts: list[bytes] = []
        self._role: Role | None = None
        self._open: Counter[str] = Counter()

    def take(self, message: Message) -> None:
        results, rest = _split(message)
        if results is not None:
            self._put_results(results)
        if rest is not None:
            self._close()
            if rest.role == "assistant":
                self._open.update(call.id for call in rest.tool_calls)
            self._put(rest)

    def closed(self) -> tuple[list[bytes], bool]:
        if not self._open:
            return [*self._sealed, *self._parts], self._role == "assistant"
        copy = _History(self._codec)
        copy._parts, copy._role, copy._open = self._parts.copy(), self._role, self._open.copy()
        copy._close()
        return [*self._sealed, *copy._sealed, *copy._parts], False

    def _put_results(self, message: Message) -> None:
        content = tuple(filter(self._is_asked_for, message.content))
        if len(content) == len(message.content):
            self._put(message)
        elif content:
            self._put(Message(message.id, message.role, content, message.source))

    def _is_asked_for(self, block: Block) -> bool:
        assert isinstance(block, ToolResultBlock)
        id = block.tool_call_id
        if id not in self._open:
            return False
        self._open -= Counter((id,))
        return True

    def _close(self) -> None:
        for call_id in self._open.elements():
            self._put(create_tool_result_message(call_id, NO_RESULT, is_error=True, id=call_id))
        self._open.clear()

    def _put(self, message: Message) -> None:
        wire = message.encoded(self._codec)
        if wire:
            self._codec.append(self._parts, wire, message.role, self._role)
            self._role = message.role
            if len(self._parts) > 2 * _SEALED:
                self._sealed.append(self._codec.separator.join(self._parts[:_SEALED]))
                del self._parts[:_SEALED]


def _split(message: Message) -> tuple[Message | None, Message | None]:
    """The results of a message and the rest of it, each as a message; most have only one."""
    if message.role == "assistant":
        return None, message
    is_result = [isinstance(block, ToolResultBlock) for block in message.content]
    if not any(is_result):
        return None, message
    if all(is_result):
        return message, None
    pairs = list(zip(message.content, is_result, strict=True))
    results = tuple(block for block, found in pairs if found)
    rest = tuple(block for block, found in pairs if not found)
    return (
        Message(message.id, message.role, results, message.source),
        Message(message.id, message.role, rest, message.source),
    )
