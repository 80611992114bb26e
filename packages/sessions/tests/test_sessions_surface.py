import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    LlmFailure,
    Message,
    TextBlock,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_sessions import (
    AssistantMessage,
    Errored,
    ErrorInfo,
    InvalidEventError,
    Replace,
    Session,
    SessionEvent,
    Sources,
    Surface,
    SurfaceError,
    ToolResult,
    TurnEnd,
    TurnStart,
    derive_messages,
    derived_message,
    is_append,
    is_replacement,
    is_surface_type,
)


def _say(session: Session, text: str) -> SessionEvent:
    return session.append("user/message", create_user_message(text), surface_op="append")


def _texts(session: Session) -> list[str]:
    return [message.text for message in session.derive_messages()]


def _conversation(count: int) -> Session:
    session = Session()
    for number in range(count):
        _say(session, str(number))
    return session


def test_messages_derive_verbatim_and_in_order() -> None:
    """S-010, S-014, S-050: The very message that was appended, identity and source included."""
    session = Session()
    assert len(session.derive_messages()) == 0
    message = create_user_message("hi")
    answer = create_assistant_message("yo", "p", "m")
    result = create_tool_result_message("c1", "3")

    session.append("user/message", message, surface_op="append")
    session.append("assistant/message", AssistantMessage(1, 1, answer), surface_op="append")
    session.append("tool/result", ToolResult(1, 1, result), surface_op="append")

    assert list(session.derive_messages()) == [message, answer, result]
    assert session.derive_messages()[0] is message
    assert session.surface.seqs == (0, 1, 2)


def test_boundaries_and_empty_answers_derive_nothing() -> None:
    """S-011, S-060: Only the surface makes history, and an empty answer is none."""
    session = Session()
    session.append("turn/start", TurnStart(1))
    empty = create_assistant_message((), "p", "m")
    event = session.append(
        "assistant/message", AssistantMessage(1, 1, empty), surface_op="append", sources=[]
    )

    assert len(session.derive_messages()) == 0
    assert derived_message(event) is None
    assert session.surface.seqs == (1,)


def test_the_failure_of_a_turn_is_no_part_of_the_history() -> None:
    """S-011, B-117: It is in the log, and no model ever sees it."""
    session = _conversation(1)
    failure = LlmFailure("API Error: 400", "HTTP_400", status=400)
    session.append("turn/end", TurnEnd(1, Errored(failure)))

    assert _texts(session) == ["0"]
    assert _texts(Session(seed=session.events)) == ["0"]


def test_views_that_were_taken_do_not_grow() -> None:
    """S-012, S-060: Neither events nor messages, also not over a replacement."""
    session = _conversation(3)
    events, messages = session.events, session.derive_messages()
    _say(session, "later")
    session.append(
        "user/message", create_user_message("sum"), surface_op=Replace(0, 2), sources=[(0, 2)]
    )

    assert len(events) == 3
    assert [message.text for message in messages] == ["0", "1", "2"]
    assert _texts(session) == ["sum", "later"]
    with pytest.raises(TypeError):
        events[0] = events[1]  # type: ignore[index]  # read-only to the type checker as well


def test_catching_up_reads_new_events_only() -> None:
    """S-050, S-060: Messages that were derived before are the same objects, in one list."""
    session = _conversation(2)
    first = session.derive_messages()
    _say(session, "2")

    second = session.derive_messages()

    assert [a is b for a, b in zip(first, second, strict=False)] == [True, True]
    assert len(second) == 3


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (0, 3, ["new"]),
        (1, 2, ["0", "new", "3"]),
        (2, 2, ["0", "1", "new", "3"]),
        (3, 3, ["0", "1", "2", "new"]),
    ],
)
def test_a_replacement_takes_the_place_of_a_range(start: int, end: int, left: list[str]) -> None:
    """S-051, S-058, S-059: The whole, a part, one node, the last; each counts as a generation."""
    session = _conversation(4)
    session.derive_messages()

    event = session.append(
        "user/message",
        create_user_message("new"),
        surface_op=Replace(start, end),
        sources=[(start, end)],
    )

    assert _texts(session) == left
    assert session.surface.replace_generation == 1
    assert is_replacement(event)
    assert not is_append(event)


@pytest.mark.parametrize(("seen", "rewrites"), [(2, 0), (3, 1), (4, 1)])
def test_replacing_what_nobody_has_read_takes_nothing_back(seen: int, rewrites: int) -> None:
    """S-050, S-060: The messages that were given before go on; only others start over."""
    session = _conversation(seen)
    given = session.derive_messages()
    for number in range(seen, 4):
        _say(session, str(number))

    new = create_user_message("new")
    session.append("user/message", new, surface_op=Replace(2, 3), sources=[(2, 3)])

    assert _texts(session) == ["0", "1", "new"]
    assert session.rewrites == rewrites
    assert [message.text for message in given] == ["0", "1", "2", "3"][:seen]
    assert tuple(session.derive_messages()) == derive_messages(session.events)


def test_a_replacement_can_be_replaced() -> None:
    """S-051: Nodes are found by seq, wherever they stand."""
    session = _conversation(3)
    new = create_user_message("a")
    session.append("user/message", new, surface_op=Replace(0, 1), sources=[(0, 1)])
    newer = create_user_message("b")
    session.append("user/message", newer, surface_op=Replace(3, 2), sources=[(0, 3)])

    assert _texts(session) == ["b"]
    assert session.surface.seqs == (4,)


@pytest.mark.parametrize(
    ("start", "end", "sources", "reason"),
    [
        (9, 1, [(0, 2)], "no node 9"),
        (0, 9, [(0, 2)], "no node 9"),
        (2, 1, [(0, 2)], "stands after"),
        (0, 2, [0, 2], "do not name node 1"),
        (0, 2, None, "do not name node 0"),
        (0, 2, [(0, 3)], "not an earlier event"),
    ],
)
def test_a_replacement_that_does_not_fit_changes_nothing(
    start: int, end: int, sources: list[int | tuple[int, int]] | None, reason: str
) -> None:
    """S-052, S-053, S-056: The error is raised before anything moved."""
    session = _conversation(3)

    with pytest.raises(SurfaceError, match=reason):
        session.append(
            "user/message",
            create_user_message("x"),
            surface_op=Replace(start, end),
            sources=sources,
        )

    assert _texts(session) == ["0", "1", "2"]
    assert (len(session.events), session.surface.replace_generation) == (3, 0)


def test_surface_types_need_an_operation_and_others_must_not_have_one() -> None:
    """S-022, S-059: Surface types need surfaceOp; others must not carry it, nor sources."""
    session = _conversation(1)

    with pytest.raises(SurfaceError, match="needs a surfaceOp"):
        session.append("user/message", create_user_message("x"))
    with pytest.raises(SurfaceError, match="not a surface type"):
        session.append("turn/start", TurnStart(1), surface_op="append")
    with pytest.raises(SurfaceError, match="not a surface type"):
        session.append("turn/start", TurnStart(1), sources=[0])

    assert is_surface_type("user/message")
    assert not is_surface_type("turn/start")
    assert not is_surface_type("no/such")


def test_only_an_answer_may_come_from_nothing() -> None:
    """S-053: An explicit empty list says that no chunk made the message."""
    session = Session()
    answer = AssistantMessage(1, 1, create_assistant_message("x", "p", "m"))

    event = session.append("assistant/message", answer, surface_op="append", sources=())

    assert event.sources == Sources()
    with pytest.raises(SurfaceError, match="empty list"):
        session.append("user/message", create_user_message("x"), surface_op="append", sources=())


def _result(text: str = "3", **change: object) -> ToolResult:
    message = create_tool_result_message("c1", text, id="r1")
    return ToolResult(1, 1, message, **change)  # type: ignore[arg-type]  # one optional field


def test_the_content_of_a_tool_result_may_be_rewritten() -> None:
    """S-054: One node, itself a result, and everything else stays."""
    session = _conversation(1)
    session.append("tool/result", _result(), surface_op="append")

    session.append("tool/result", _result("cut"), surface_op=Replace(1, 1), sources=[1])

    assert [message.content for message in session.derive_messages()][1] == (_result("cut").block,)


@pytest.mark.parametrize(
    ("view", "operation", "reason"),
    [
        (_result(error=ErrorInfo("E", "X")), Replace(1, 1), "only the content"),
        (
            ToolResult(1, 1, create_tool_result_message("c1", "3", id="r2")),
            Replace(1, 1),
            "only the content",
        ),
        (ToolResult(1, 2, _result().message), Replace(1, 1), "only the content"),
        (_result(), Replace(0, 0), "exactly one other tool/result"),
        (_result(), Replace(0, 1), "exactly one other tool/result"),
    ],
)
def test_nothing_else_of_a_tool_result_may_be_rewritten(
    view: ToolResult, operation: Replace, reason: str
) -> None:
    """S-054: Id, call, step and error are facts."""
    session = _conversation(1)
    session.append("tool/result", _result(), surface_op="append")

    with pytest.raises(SurfaceError, match=reason):
        session.append("tool/result", view, surface_op=operation, sources=[(0, 1)])


def test_a_surface_folds_a_window_of_a_log() -> None:
    """S-055: A window with an offset works; a replacement across its head is refused."""
    session = _conversation(4)
    session.append(
        "user/message", create_user_message("x"), surface_op=Replace(1, 2), sources=[1, 2]
    )
    window = Surface()
    for event in session.events[2:4]:
        window.commit(event, window.plan(event))

    assert window.seqs == (2, 3)
    with pytest.raises(SurfaceError, match="no node 1"):
        window.plan(session.events[4])
    assert window.seqs == (2, 3)


def test_sources_are_taken_as_they_were_given() -> None:
    """S-057: A list that changes later does not change the event."""
    session = _conversation(3)
    sources: list[int | tuple[int, int]] = [0, 1]
    event = session.append(
        "user/message", create_user_message("x"), surface_op=Replace(0, 1), sources=sources
    )
    sources.append(2)

    assert event.sources == Sources([(0, 1)])


operations = st.lists(st.tuples(st.sampled_from("aer"), st.integers(0, 8), st.integers(0, 8)))


@given(operations)
def test_incremental_and_full_derivation_agree(plan: list[tuple[str, int, int]]) -> None:
    """S-056, S-060: Whatever is appended, replaced or refused, both folds say the same."""
    session = Session()
    for kind, a, b in plan:
        try:
            if kind == "a":
                _say(session, f"{a}")
            elif kind == "e":
                empty = AssistantMessage(1, 1, create_assistant_message((), "p", "m"))
                session.append("assistant/message", empty, surface_op="append")
            else:
                text = create_user_message("new")
                last = len(session.events) - 1
                session.append(
                    "user/message", text, surface_op=Replace(a, b), sources=[(0, max(last, 0))]
                )
        except SurfaceError:
            pass
        derived: tuple[Message, ...] = tuple(session.derive_messages())
        assert derived == derive_messages(session.events)
    assert list(Session(seed=session.events).derive_messages()) == list(session.derive_messages())


def test_a_message_of_the_wrong_class_is_refused() -> None:
    """S-101: A payload is of the declared class or plain JSON."""
    with pytest.raises(InvalidEventError, match="must be an object"):
        Session().append("turn/start", "1")
    with pytest.raises(ValueError, match="TextBlock is not a JSON type"):
        Session().append("turn/start", TextBlock("x"))
