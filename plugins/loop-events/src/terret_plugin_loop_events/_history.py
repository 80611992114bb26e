"""How many messages the model sees, and how compactions change that."""

from collections.abc import Iterable

from terret_llm import Message
from terret_sessions import AssistantMessage, SessionEvent


class History:
    """Counts the messages of the surface without keeping them."""

    __slots__ = ("_before", "_empty", "_replaced", "_shadowed", "_turn", "count")

    def __init__(self) -> None:
        self.count = 0
        self._empty: set[int] = set()  # answers without content stand there, but are no messages
        self._turn: object = None
        self._before = 0
        self._shadowed: int | None = None
        self._replaced = False

    def take(self, event: SessionEvent) -> None:
        """Takes a surface event."""
        if event.surface_op != "append":
            self._replace(event)
        elif _is_empty(event):
            self._empty.add(event.seq)
        else:
            self.count += 1

    def start(self, turn: object) -> None:
        """A compaction begins; `turn` is `None` for one that somebody asked for between turns."""
        self._turn, self._before = turn, self.count
        self._shadowed, self._replaced = None, False

    def summarise(self, shadowed: object) -> None:
        """The next event replaces these seqs; ranges stand for all they hold."""
        seqs = [*_seqs(shadowed)] if isinstance(shadowed, list | tuple) else []
        self._shadowed = len(seqs) - len(self._empty.intersection(seqs))
        self._empty.difference_update(seqs)

    def end(self, error: object) -> tuple[int, int] | None:
        """Returns the counts before and after a compaction of a turn that replaced something."""
        succeeded = self._turn is not None and self._replaced and error is None
        self._turn = None
        return (self._before, self.count) if succeeded else None

    def _replace(self, event: SessionEvent) -> None:
        if self._shadowed is None:
            return  # one node for one node, such as a result that was cut
        self.count += 1 - self._shadowed
        self._shadowed, self._replaced = None, True


def _is_empty(event: SessionEvent) -> bool:
    view = event.view
    message = view.message if isinstance(view, AssistantMessage) else None
    return isinstance(message, Message) and not message.content


def _seqs(shadowed: Iterable[object]) -> Iterable[int]:
    for item in shadowed:
        if isinstance(item, int):
            yield item
        elif isinstance(item, list | tuple):
            first, last = item
            yield from range(int(first), int(last) + 1)
