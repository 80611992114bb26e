import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from string import ascii_lowercase, ascii_uppercase, digits

from terret_llm._folds import folded
from terret_llm._messages import Message

_ALPHABET = digits + ascii_uppercase + ascii_lowercase


def fitting_id(id: str, allowed: re.Pattern[str], *, length: int) -> str:
    """`id`, if `allowed` matches all of it, else that many letters and digits derived from it."""
    if allowed.fullmatch(id):
        return id
    number = int.from_bytes(sha256(id.encode("utf-8", "surrogatepass")).digest())
    characters = []
    for _ in range(length):
        number, index = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[index])
    return "".join(characters)


def call_ids_of(messages: Sequence[Message]) -> Callable[[str], bool]:
    """Whether a tool call of the conversation has an id; nothing is read before it is asked."""

    def is_used(id: str) -> bool:
        return id in folded(messages, "call ids", _CallIds).ids

    return is_used


class _CallIds:
    def __init__(self) -> None:
        self.ids: set[str] = set()

    def take(self, message: Message) -> None:
        self.ids.update(call.id for call in message.tool_calls)
