"""Which turn answered the input that a log holds."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from terret_sessions import (
    Completed,
    InboxSpliced,
    SessionEvent,
    StepStart,
    TurnEnd,
    TurnStart,
)


@dataclass(frozen=True, slots=True)
class ConsumedWork:
    """What became of the input of a log.

    Attributes:
        turn: the last turn that accounts for claimed input, or `None`.
        dropped: whether input was discarded unrun after that turn.
    """

    turn: int | None = None
    dropped: bool = False


def consumed_work(events: Iterable[SessionEvent]) -> ConsumedWork:
    """Finds the last turn that accounts for claimed input.

    That is a turn which entered a step, or which claimed input and ended before any step for
    another reason than that nothing was left to do. Input claimed outside of a turn is credited
    to none; a replaced message still counts as pending.
    """
    work = ConsumedWork()
    turn, claimed = None, False
    dropped_since_claim = False
    for event in events:
        match event.view:
            case TurnStart(turn=number):
                turn, claimed = number, False
            case InboxSpliced(removed_count=count, outcome=None) if count and turn is not None:
                claimed, dropped_since_claim = True, False
            case InboxSpliced(removed_count=count, inserted=new, outcome="canceled"):
                if count > len(new):
                    work, dropped_since_claim = replace(work, dropped=True), True
            case StepStart(turn=number):
                work = ConsumedWork(number)
                claimed = False
            case TurnEnd(turn=number, reason=reason):
                if claimed and not isinstance(reason, Completed):
                    work = ConsumedWork(number, dropped_since_claim)
                turn, claimed = None, False
    return work
