"""Rules for what listeners of the checkpoints return."""

from collections.abc import Iterable
from typing import TypeVar

from terret_context import Event
from terret_llm import Finish, Message, ToolCallBlock

T = TypeVar("T")


def expected(event: Event, value: T, *types: type) -> T:
    """Returns what listeners decided. Raises `TypeError` if it is no decision of that event."""
    if isinstance(value, types):
        return value
    accepted = ", ".join(kind.__name__ for kind in types)
    raise TypeError(f"a listener of {event.name} returned {value!r}; accepted: {accepted}")


def expected_messages(event: Event, value: Iterable[Message]) -> tuple[Message, ...]:
    """Returns the messages that listeners gave. Raises `TypeError` if it is anything else."""
    messages = tuple(value) if isinstance(value, Iterable) else None
    if messages is None or not all(isinstance(message, Message) for message in messages):
        raise TypeError(f"a listener of {event.name} returned {value!r}; accepted: messages")
    return messages


def settled_message(assembled: Message, returned: Message, finish: Finish) -> Message:
    """Returns the message to log: content as a listener left it, identity as assembled.

    Truncated tool calls never pass; replay state goes with the blocks it belongs to.
    """
    content = returned.content
    if finish.kind == "max-tokens":
        content = tuple(block for block in content if not isinstance(block, ToolCallBlock))
    if content == assembled.content:
        return assembled
    plain = assembled.without_replay_state()
    return Message(plain.id, plain.role, content, plain.source)
