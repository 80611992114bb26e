import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_agents import Batch, DuplicateInputError, Inbox, InboxSpliceError, Target
from terret_llm import Message, create_user_message
from terret_sessions import InboxSpliced, Session, SessionMeta


class Recorder:
    """Hears what an inbox announces."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def queued(self, message: Message, target: Target, wake: bool) -> None:
        self.heard.append(f"+{message.text}")

    def claimed(self, message: Message, turn: int) -> None:
        self.heard.append(f"*{message.text}")

    def discarded(self, message: Message) -> None:
        self.heard.append(f"-{message.text}")


def inbox() -> tuple[Inbox, Session, Recorder]:
    session, recorder = Session("s"), Recorder()
    return Inbox(session, recorder), session, recorder


def message(text: str) -> Message:
    return create_user_message(text)


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [each.text for each in messages]


def splices(session: Session) -> list[InboxSpliced]:
    return [e.view for e in session.events if isinstance(e.view, InboxSpliced)]


def test_replace_works_in_either_list_and_keeps_the_position() -> None:
    """A-002: the old message is discarded, the new one queued, in one splice."""
    box, session, recorder = inbox()
    a, b, c = message("a"), message("b"), message("c")
    for each in (a, b, c):
        box.append("next-step", each)
    box.append("next-turn", message("t"))
    recorder.heard.clear()
    assert box.replace(b.id, message("B"))
    assert texts(box.next_step) == ["a", "B", "c"]
    assert recorder.heard == ["-b", "+B"]
    change = splices(session)[-1]
    assert (change.start, change.removed_count, change.outcome) == (1, 1, "canceled")
    assert not box.replace("unknown", message("x"))


def test_a_replaced_message_may_keep_its_id() -> None:
    """A-003: an id is unique over what stays."""
    box, _, _ = inbox()
    first = message("first")
    box.append("next-turn", first)
    again = Message(first.id, "user", message("again").content, first.source)
    assert box.replace(first.id, again)
    assert texts(box.next_turn) == ["again"]


@pytest.mark.parametrize(
    ("start", "count", "left"),
    [(-1, 1, "ab"), (-9, 1, "bc"), (9, 1, "abc"), (1, 9, "a"), (0, -1, "abc"), (1, 1, "ac")],
)
def test_coordinates_are_normalized(start: int, count: int, left: str) -> None:
    """A-003: places outside the list mean its nearest end; nothing to do is not logged."""
    box, session, _ = inbox()
    for each in "abc":
        box.append("next-turn", message(each))
    before = len(session.events)
    removed = box.splice("next-turn", start, count)
    assert "".join(texts(box.next_turn)) == left
    assert len(session.events) == before + bool(removed)


def test_duplicates_are_refused_and_a_missing_removal_is_reported() -> None:
    """A-003: ids are unique over both lists."""
    box, session, _ = inbox()
    a = message("a")
    box.append("next-turn", a)
    with pytest.raises(DuplicateInputError):
        box.append("next-step", a)
    assert len(session.events) == 1
    assert box.remove(a.id)
    assert not box.remove(a.id)


def test_clear_records_both_lists_as_canceled_next_step_first() -> None:
    """A-004: both are empty when the first discard is announced."""
    box, session, recorder = inbox()
    box.append("next-turn", message("turn"))
    box.append("next-step", message("step"))
    recorder.heard.clear()
    box.clear()
    assert recorder.heard == ["-step", "-turn"]
    changes = [(each.target, each.outcome) for each in splices(session)[-2:]]
    assert changes == [("next-step", "canceled"), ("next-turn", "canceled")]
    assert not box.has_pending


def test_one_claim_opens_a_turn_with_all_steering_and_one_prompt() -> None:
    """L-025, A-002: claims have no outcome; the prompt comes last."""
    box, session, recorder = inbox()
    prompts = [message("p1"), message("p2")]
    for prompt in prompts:
        box.append("next-turn", prompt, waking=True)
    steering = message("steer")
    box.append("next-step", message("context"))
    box.append("next-step", steering, waking=True)
    recorder.heard.clear()
    batch = box.claim("next-turn", 1)
    assert texts(batch.messages) == ["context", "steer", "p1"]
    assert batch.prompt is prompts[0]
    assert batch.waking == {steering.id, prompts[0].id}
    assert recorder.heard == ["*context", "*steer", "*p1"]
    assert [each.outcome for each in splices(session)[-2:]] == [None, None]
    assert box.claim("next-step", 1) == Batch()
    assert texts(box.next_turn) == ["p2"]


def test_a_message_that_was_claimed_may_come_again_without_waking() -> None:
    """L-213: what it was sent for before does not count."""
    box, _, _ = inbox()
    first = message("first")
    box.append("next-step", first, waking=True)
    box.claim("next-step", 1)
    box.append("next-step", first)
    assert not box.wants_turn


def test_restored_input_is_that_of_the_log() -> None:
    """L-034, A-001: next-step messages then no longer wake."""
    box, session, _ = inbox()
    box.append("next-step", message("steer"), waking=True)
    assert box.wants_turn
    again = Inbox(Session(seed=session.events), Recorder())
    assert texts(again.next_step) == ["steer"]
    assert not again.wants_turn


def test_a_fork_does_not_inherit_pending_input() -> None:
    """A-001: what is before the seed's end belongs to the parent."""
    box, session, _ = inbox()
    box.append("next-turn", message("parent's"))
    meta = SessionMeta(seed_length=len(session.events))
    child = Session(seed=session.events, meta=meta)
    assert not Inbox(child, Recorder()).has_pending


@pytest.mark.parametrize(
    "impossible",
    [
        InboxSpliced("next-turn", 1, 0, (message("late"),)),
        InboxSpliced("next-turn", 0, 1),
        InboxSpliced("next-step", 0, 0, (message("x"),) * 2),
    ],
)
def test_an_impossible_splice_refuses_the_load_naming_its_seq(impossible: InboxSpliced) -> None:
    """A-001."""
    session = Session("s")
    session.append("agent/inbox/spliced", InboxSpliced("next-step", 0, 0, (message("a"),)))
    session.append("agent/inbox/spliced", impossible)
    with pytest.raises(InboxSpliceError, match="seq 1") as caught:
        Inbox(session, Recorder())
    assert caught.value.seq == 1


TARGETS: st.SearchStrategy[Target] = st.sampled_from(["next-turn", "next-step"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(TARGETS, st.integers(-3, 5), st.integers(-1, 4), st.integers(0, 3)),
        TARGETS,
        st.none(),
    ),
    max_size=20,
)


@given(CHANGES)
def test_the_log_alone_restores_both_lists(
    changes: list[tuple[Target, int, int, int] | Target | None],
) -> None:
    """A-001, A-003: whatever was spliced, claimed and cleared (property)."""
    box, session, _ = inbox()
    for change in changes:
        if change is None:
            box.clear()
        elif isinstance(change, str):
            box.claim(change, 1)
        else:
            target, start, count, added = change
            box.splice(target, start, count, [message(str(n)) for n in range(added)])
    again = Inbox(Session(seed=session.events), Recorder())
    assert (again.next_turn, again.next_step) == (box.next_turn, box.next_step)
