from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from ._messages import Message


class Fold(Protocol):
    """Something that is built up message by message."""

    def take(self, message: Message) -> None:
        """Take the next message of the conversation."""
        ...


F = TypeVar("F", bound=Fold)


class _Kept(Generic[F]):
    __slots__ = ("fold", "messages")

    def __init__(self, fold: F) -> None:
        self.fold = fold
        self.messages: list[Message] = []


def folded(messages: Sequence[Message], key: Hashable, new: Callable[[], F]) -> F:
    """The fold over all of `messages`, of which only those since the last call are taken.

    What was folded is kept with the first message, so it lives as long as the conversation. If
    an earlier message was replaced, everything is folded anew.
    """
    given = list(messages)
    if not given:
        return new()
    keeper = given[0]._kept
    kept: _Kept[F] = keeper.pop(("fold", key), None) or _Kept(new())
    done = len(kept.messages)
    if given[:done] == kept.messages:
        _take(kept, given)
        keeper["fold", key] = kept
        return kept.fold
    other = _Kept(new())
    _take(other, given)
    # A shorter list is an excerpt that somebody asks for beside the conversation.
    keeper["fold", key] = other if len(given) >= done else kept
    return other.fold


def _take(kept: _Kept[F], given: list[Message]) -> None:
    for message in given[len(kept.messages) :]:
        kept.fold.take(message)
    kept.messages = given
