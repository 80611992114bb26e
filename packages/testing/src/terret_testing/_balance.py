"""Whether the log of a session at rest is whole."""

from collections import Counter

from terret_llm import ToolResultBlock
from terret_sessions import Session, ToolCall, ToolResult, TurnEnd, TurnStart


def assert_balanced(session: Session) -> None:
    """Fails unless the log of an agent at rest is closed: turns, calls, and what a model is sent.

    Each turn has ended, turns are numbered without gaps, each call has one result, and in the
    history each call of an answer is followed by its result, in order.
    """
    assert session.open_turn is None, f"turn {session.open_turn} of {session.id} is open"
    views = [event.view for event in session.events]
    starts = [view.turn for view in views if isinstance(view, TurnStart)]
    ends = [view.turn for view in views if isinstance(view, TurnEnd)]
    assert starts == ends == list(range(1, len(starts) + 1))
    calls = Counter(view.call_id for view in views if isinstance(view, ToolCall))
    results = Counter(
        block.tool_call_id
        for view in views
        if isinstance(view, ToolResult)
        for block in view.message.content
        if isinstance(block, ToolResultBlock)
    )
    # What was asked for and never begun when the process ended has a result without a call.
    assert calls <= results, f"calls without a result: {calls - results}"
    _assert_pairs(session)


def _assert_pairs(session: Session) -> None:
    open_calls: list[str] = []
    for message in session.derive_messages():
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        assert [block.tool_call_id for block in results] == open_calls[: len(results)]
        del open_calls[: len(results)]
        assert results or not open_calls, f"calls without a result in the history: {open_calls}"
        open_calls += [block.id for block in message.tool_calls]
    assert not open_calls, f"calls without a result in the history: {open_calls}"
