from collections.abc import Sequence
from dataclasses import dataclass

from terret_llm import Message, ToolResultBlock


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call that has its result."""

    tool: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """What the newest turn of a conversation is about."""

    request: str
    """The last text of a person."""
    called: Called | None
    """The last call that was made for it."""
    earlier: Called | None
    """The last call of the turn before."""
    earlier_text: str
    """The result of that call, or else the answer of the turn before."""


def read_turn(messages: Sequence[Message]) -> Turn:
    """Find the newest request, what was done for it, and what the turn before came to."""
    starts = [index for index, message in enumerate(messages) if _is_request(message)]
    if not starts:
        return Turn("", _last_call(messages), None, "")
    start = starts[-1]
    before = messages[starts[-2] if len(starts) > 1 else 0 : start]
    earlier = _last_call(before)
    answers = [message.text for message in before if message.role == "assistant"]
    return Turn(
        request=messages[start].text,
        called=_last_call(messages[start + 1 :]),
        earlier=earlier,
        earlier_text=earlier.text if earlier else "".join(answers[-1:]),
    )


def _is_request(message: Message) -> bool:
    return message.role == "user" and message.source.kind == "user" and bool(message.text)


def _last_call(messages: Sequence[Message]) -> Called | None:
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    results = [
        block
        for message in messages
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]
    if not results:
        return None
    last = results[-1]
    return Called(names.get(last.tool_call_id, "the tool"), last.text.strip(), last.is_error)
