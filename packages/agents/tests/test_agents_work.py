import pytest

from terret_agents import ConsumedWork, consumed_work
from terret_llm import create_user_message
from terret_sessions import (
    Aborted,
    Blocked,
    CancelCause,
    Completed,
    InboxSpliced,
    Session,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)

QUEUE, CLAIM, CANCEL, STEP, REPLACE = "queue", "claim", "cancel", "step", "replace"
STOPPED = Aborted(CancelCause("user"))


class Log:
    """Writes logs of turns in short."""

    def __init__(self) -> None:
        self.session = Session("s")
        self.turns = 0

    def add(self, *parts: str) -> "Log":
        for part in parts:
            if part == STEP:
                self.session.append("step/start", StepStart(self.turns, 1))
                self.session.append("step/end", StepEnd(self.turns, 1))
            else:
                new = (create_user_message("x"),) if part in (QUEUE, REPLACE) else ()
                removed = 0 if part == QUEUE else 1
                change = InboxSpliced("next-turn", 0, removed, new)
                if part in (CANCEL, REPLACE):
                    change = InboxSpliced("next-turn", 0, removed, new, "canceled")
                self.session.append("agent/inbox/spliced", change)
        return self

    def turn(self, *parts: str, end: TurnEndReason) -> "Log":
        self.turns += 1
        self.session.append("turn/start", TurnStart(self.turns))
        self.add(*parts)
        self.session.append("turn/end", TurnEnd(self.turns, end))
        return self


def test_an_empty_log_has_no_work() -> None:
    """A-017."""
    assert consumed_work(()) == ConsumedWork(None, dropped=False)
    assert consumed_work(Session(seed=()).events) == ConsumedWork()


def test_the_last_turn_that_entered_a_step_is_found() -> None:
    """A-018."""
    log = Log().add(QUEUE).turn(CLAIM, STEP, end=Completed())
    log.add(QUEUE).turn(CLAIM, STEP, end=Completed())
    assert consumed_work(log.session.events) == ConsumedWork(2)


@pytest.mark.parametrize("end", [Blocked("no"), STOPPED])
def test_a_turn_that_claimed_input_and_ended_before_any_step_counts(end: TurnEndReason) -> None:
    """A-019, A-020: it failed, was stopped, or its claim was rejected."""
    log = Log().add(QUEUE).turn(CLAIM, STEP, end=Completed()).add(QUEUE).turn(CLAIM, end=end)
    assert consumed_work(log.session.events) == ConsumedWork(2)


def test_turns_without_input_and_claims_emptied_by_their_turn_are_ignored() -> None:
    """A-020."""
    log = Log().add(QUEUE).turn(CLAIM, STEP, end=Completed())
    log.turn(end=STOPPED).add(QUEUE).turn(CLAIM, end=Completed())
    assert consumed_work(log.session.events) == ConsumedWork(1)


def test_a_claim_outside_of_a_turn_is_credited_to_none() -> None:
    """A-021."""
    log = Log().add(QUEUE, CLAIM)
    assert consumed_work(log.session.events) == ConsumedWork()


def test_input_cancelled_after_the_last_turn_is_reported() -> None:
    """A-022: a replacement counts as pending; a later turn absorbs an earlier drop."""
    log = Log().add(QUEUE).turn(CLAIM, STEP, end=Completed()).add(QUEUE, REPLACE)
    assert consumed_work(log.session.events) == ConsumedWork(1)
    log.add(CANCEL)
    assert consumed_work(log.session.events) == ConsumedWork(1, dropped=True)
    log.add(QUEUE).turn(CLAIM, STEP, end=Completed())
    assert consumed_work(log.session.events) == ConsumedWork(2)
