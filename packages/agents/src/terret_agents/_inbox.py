"""The inbox of an agent: two ordered lists of pending messages, both in the log."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from terret_llm import Message
from terret_sessions import (
    Aborted,
    CancelCause,
    InboxSpliced,
    Interrupted,
    Session,
    SessionEvent,
    TurnEnd,
    without_chunks,
)

from ._errors import DuplicateInputError, InboxSpliceError

Target: TypeAlias = Literal["next-turn", "next-step"]

SPLICED: Final = "agent/inbox/spliced"

_CUT_OFF: Final = (Interrupted(), Aborted(CancelCause("disposed")))


class InboxObserver(Protocol):
    """What hears of changes, after the log and the lists have them."""

    def queued(self, message: Message, target: Target, wake: bool) -> None: ...
    def claimed(self, message: Message, turn: int) -> None: ...
    def discarded(self, message: Message) -> None: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages one claim took, in their order.

    Attributes:
        messages: all of them.
        prompt: the next-turn message among them, if there is one.
        waking: the ids of the prompt and of steering: what was sent to be run, not injected.
    """

    messages: tuple[Message, ...] = ()
    prompt: Message | None = None
    waking: frozenset[str] = frozenset()


class Inbox:
    """Pending input; every change is one splice: logged, then applied, then announced.

    An observer of the log still sees the lists before the change. If the append raises, nothing
    has changed. Restored next-step messages do not wake; restored next-turn messages do.
    """

    def __init__(self, session: Session, observer: InboxObserver) -> None:
        self._session = session
        self._observer = observer
        self._lists: dict[Target, list[Message]] = {"next-turn": [], "next-step": []}
        self._waking: set[str] = set()
        self._cut_off: dict[Target, list[Message]] = {"next-turn": [], "next-step": []}
        self._restore()

    @property
    def next_turn(self) -> tuple[Message, ...]:
        """The messages that each wait for a turn of their own."""
        return tuple(self._lists["next-turn"])

    @property
    def next_step(self) -> tuple[Message, ...]:
        """The messages that join the next step."""
        return tuple(self._lists["next-step"])

    @property
    def has_pending(self) -> bool:
        """Whether anything waits."""
        return bool(self._lists["next-turn"] or self._lists["next-step"])

    @property
    def wants_turn(self) -> bool:
        """Whether something waits that opens a turn when the driver is free."""
        steering = (message.id in self._waking for message in self._lists["next-step"])
        return bool(self._lists["next-turn"]) or any(steering)

    def append(self, target: Target, message: Message, *, waking: bool = False) -> None:
        """Puts a message at the end of a list. Raises `DuplicateInputError`."""
        self.splice(target, len(self._lists[target]), 0, (message,), waking=waking)

    def prepend(self, target: Target, *messages: Message, waking: bool = False) -> None:
        """Puts messages, in this order, at the head of a list."""
        self.splice(target, 0, 0, messages, waking=waking)

    def replace(self, message_id: str, message: Message) -> bool:
        """Puts `message` in the place of a pending one; tells whether that one was there."""
        found = self._find(message_id)
        if found is None:
            return False
        target, position = found
        self.splice(target, position, 1, (message,), waking=message_id in self._waking)
        return True

    def remove(self, message_id: str) -> bool:
        """Discards a pending message; tells whether it was there."""
        found = self._find(message_id)
        if found is None:
            return False
        self.splice(*found, 1)
        return True

    def clear(self) -> None:
        """Discards everything, next-step first.

        Both lists are empty before the first discard is announced, so input that an observer
        sends in answer stays.
        """
        dropped = self._change("next-step", 0, len(self._lists["next-step"]), (), canceled=True)
        dropped += self._change("next-turn", 0, len(self._lists["next-turn"]), (), canceled=True)
        self._announce_discards(dropped)

    def discard(self, target: Target) -> None:
        """Discards everything in one list."""
        self.splice(target, 0, len(self._lists[target]))

    def splice(
        self,
        target: Target,
        start: int,
        remove_count: int = 0,
        inserted: Iterable[Message] = (),
        *,
        waking: bool = False,
    ) -> tuple[Message, ...]:
        """Removes and inserts in one step and returns what was removed.

        A negative `start` counts from the end; places outside the list mean its nearest end. A
        change of nothing is not logged. Raises `DuplicateInputError` before anything changed.
        """
        messages = self._lists[target]
        start = max(start + len(messages), 0) if start < 0 else min(start, len(messages))
        remove_count = max(0, min(remove_count, len(messages) - start))
        added = tuple(inserted)
        self._refuse_duplicates(added, leaving=messages[start : start + remove_count])
        removed = self._change(target, start, remove_count, added, canceled=remove_count > 0)
        if waking:
            self._waking.update(message.id for message in added)
        self._announce_discards(removed)
        for message in added:
            self._observer.queued(message, target, waking)
        return tuple(removed)

    def claim(self, target: Target, turn: int) -> Batch:
        """Takes all next-step messages and, for a new turn, the first next-turn message."""
        steering = self._change("next-step", 0, len(self._lists["next-step"]), ())
        prompts = self._change("next-turn", 0, 1, ()) if target == "next-turn" else []
        messages = (*steering, *prompts)
        waking = frozenset(self._waking.intersection(message.id for message in messages))
        self._waking -= waking
        for message in messages:
            self._observer.claimed(message, turn)
        prompt = prompts[0] if prompts else None
        return Batch(
            messages, prompt, frozenset(waking if prompt is None else {*waking, prompt.id})
        )

    def take_back(self) -> None:
        """Puts back at the heads what a restored log claimed for a step that never began.

        That is input of a turn that a disposal or the end of the process cut off before it had
        entered; of a turn that somebody cancelled nothing comes back.
        """
        for target, messages in self._cut_off.items():
            if messages:
                self.prepend(target, *messages)
                messages.clear()

    def _change(
        self,
        target: Target,
        start: int,
        remove_count: int,
        inserted: tuple[Message, ...],
        canceled: bool = False,
    ) -> list[Message]:
        messages = self._lists[target]
        remove_count = min(remove_count, len(messages) - start)
        if not remove_count and not inserted:
            return []
        outcome: Literal["canceled"] | None = "canceled" if canceled else None
        change = InboxSpliced(target, start, remove_count, inserted, outcome)
        self._session.append(SPLICED, change)
        removed = messages[start : start + remove_count]
        messages[start : start + remove_count] = inserted
        return removed

    def _announce_discards(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._waking.discard(message.id)
        for message in messages:
            self._observer.discarded(message)

    def _find(self, message_id: str) -> tuple[Target, int] | None:
        for target, messages in self._lists.items():
            for position, message in enumerate(messages):
                if message.id == message_id:
                    return target, position
        return None

    def _refuse_duplicates(self, added: tuple[Message, ...], leaving: list[Message]) -> None:
        pending = {message.id for messages in self._lists.values() for message in messages}
        pending -= {message.id for message in leaving}
        for message in added:
            if message.id in pending:
                raise DuplicateInputError(message.id)
            pending.add(message.id)

    def _restore(self) -> None:
        # What a fork copied is its parent's pending input, not its own.
        own = self._session.events[self._session.header.seed_length or 0 :]
        for event in without_chunks(own):
            if event.type == SPLICED and isinstance(event.view, InboxSpliced):
                self._replay(event.seq, event.view)
            elif event.type == "step/start" or _is_end(event):
                for messages in self._cut_off.values():
                    messages.clear()
        self._waking.update(message.id for message in self._lists["next-turn"])

    def _replay(self, seq: int, change: InboxSpliced) -> None:
        messages = self._lists[change.target]
        end = change.start + change.removed_count
        if change.start < 0 or change.removed_count < 0 or end > len(messages):
            reason = f"{change.start}..{end} of a list of {len(messages)} messages"
            raise InboxSpliceError(seq, reason)
        try:
            self._refuse_duplicates(change.inserted, leaving=messages[change.start : end])
        except DuplicateInputError as error:
            raise InboxSpliceError(seq, str(error)) from None
        cut_off = self._cut_off[change.target]
        if change.outcome is None:
            cut_off += messages[change.start : end]
        cut_off[:] = [message for message in cut_off if message not in change.inserted]
        messages[change.start : end] = change.inserted


def _is_end(event: SessionEvent) -> bool:
    """Whether a turn has ended there in a way that somebody or something in it wanted."""
    return (
        event.type == "turn/end"
        and isinstance(event.view, TurnEnd)
        and event.view.reason not in _CUT_OFF
    )
