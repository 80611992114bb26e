"""The runtime context of a session."""

from terret_llm import Message, PluginSource, create_user_message
from terret_sessions import Replace, Session, Sources
from terret_system_prompt import Assembly, Fact, RuntimeContext


def facts(*texts: str) -> Assembly:
    contexts = tuple(Fact(f"fact-{i}", i, text) for i, text in enumerate(texts))
    return Assembly(contexts=contexts, variables={})


def log(session: Session, message: Message | None) -> int:
    assert message is not None
    return session.append("user/message", message, surface_op="append").seq


def test_a_snapshot_is_due_once_per_text() -> None:
    """P-001: A snapshot is told when the text changed, and only then."""
    session, runtime = Session(), RuntimeContext()
    first = runtime.due(facts("Monday", "rain"), session)
    assert first is not None
    assert first.text.endswith("\n\nMonday\n\nrain")
    assert first.source == PluginSource(
        "system-prompt", form="snapshot", sections=("fact-0", "fact-1")
    )
    log(session, first)
    log(session, create_user_message("hello"))
    assert runtime.due(facts("Monday", "rain"), session) is None
    assert runtime.due(facts("Tuesday", "rain"), session) is not None


def test_what_was_not_logged_is_due_again() -> None:
    """P-001: A refused batch loses nothing."""
    session, runtime = Session(), RuntimeContext()
    assert runtime.due(facts("Monday"), session) is not None
    assert runtime.due(facts("Monday"), session) is not None


def test_an_emptied_set_is_told_once() -> None:
    """P-001: When the set becomes empty, one "cleared" snapshot is sent."""
    session, runtime = Session(), RuntimeContext()
    assert runtime.due(facts(), session) is None
    log(session, runtime.due(facts("Monday"), session))
    cleared = runtime.due(facts(), session)
    assert cleared is not None
    assert "Monday" not in cleared.text
    log(session, cleared)
    assert runtime.due(facts(), session) is None
    assert runtime.due(facts("Monday"), session) is not None


def test_a_snapshot_that_compaction_removed_is_due_again() -> None:
    """P-001: Compaction of the last copy brings it back."""
    session, runtime = Session(), RuntimeContext()
    seq = log(session, runtime.due(facts("Monday"), session))
    assert runtime.due(facts("Monday"), session) is None
    summary = create_user_message("earlier: a chat")
    session.append("user/message", summary, surface_op=Replace(seq, seq), sources=Sources((seq,)))
    assert runtime.due(facts("Monday"), session) is not None


def test_a_resumed_session_knows_what_was_told() -> None:
    """P-001: The snapshot is found in the log of an earlier process."""
    session = Session()
    log(session, RuntimeContext().due(facts("Monday"), session))
    assert RuntimeContext().due(facts("Monday"), Session(seed=session.events)) is None
