import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    BlockStart,
    Chunk,
    HarnessError,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    create_user_message,
)
from terret_sessions import (
    AssistantChunk,
    Completed,
    Interrupted,
    InvalidEventError,
    LastTurn,
    LogReader,
    MisplacedEventError,
    Session,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
    UnreadableRowError,
    event_lines,
    last_turn,
)

texts = st.text(max_size=5)
indexes = st.integers(0, 1)
chunks: st.SearchStrategy[Chunk] = st.one_of(
    st.builds(TextDelta, indexes, texts),
    st.builds(ReasoningDelta, indexes, texts),
    st.builds(ToolCallDelta, indexes, st.sampled_from(["a", "b"]), st.none() | texts, texts),
    st.builds(BlockStart, indexes, st.just("text")),
)
steps = st.integers(1, 2)
runs = st.lists(st.tuples(chunks, steps, st.integers(1, 6)), max_size=12)


def _session(parts: list[tuple[Chunk, int, int]]) -> Session:
    session = Session()
    session.append("turn/start", TurnStart(1))
    for chunk, step, count in parts:
        for _ in range(count):
            session.append("assistant/chunk", AssistantChunk(1, step, chunk))
    session.append("user/message", create_user_message("hi"), surface_op="append")
    return session


def _read(rows: list[bytes], first: int = 0) -> LogReader:
    reader = LogReader(first)
    for row in rows:
        reader.add(row)
    return reader


def _extended(lines: list[bytes], first: int = 0) -> LogReader:
    reader = LogReader(first)
    reader.extend(lines)
    return reader


@given(runs, st.data())
def test_a_log_is_read_from_its_rows_or_its_last_rows(
    parts: list[tuple[Chunk, int, int]], data: st.DataObject
) -> None:
    """M-117, S-083: Packed or not, whole or from any seq on, the events are those written."""
    session = _session(parts)
    lines = event_lines(session.events)
    first = data.draw(st.integers(0, len(lines)))

    for read in (_read, _extended):
        assert read(lines).events == session.events
        assert read(lines[first:], first).events == session.events[first:]


@given(runs)
def test_a_log_that_was_read_seeds_a_session(parts: list[tuple[Chunk, int, int]]) -> None:
    """S-015, S-018: It is taken over as it is, and goes on like the first."""
    session = _session(parts)
    lines = event_lines(session.events)

    replay = Session(seed=_extended(lines).events)

    assert replay.events[:-1] == session.events
    assert replay.derive_messages() == session.derive_messages()
    assert (replay.open_turn, replay.first_live_seq) == (1, len(lines))


def test_reading_may_stop_and_go_on() -> None:
    """S-012: A view that was taken on the way does not grow."""
    session = _session([(TextDelta(0, "x"), 1, 9)])
    lines = event_lines(session.events)
    reader = _extended(lines[:5])
    view = reader.events
    reader.extend(lines[5:])

    assert view == session.events[:5]
    assert reader.events == session.events


DELTA = (
    b'{"type":"assistant/chunk","seq":4,"time":1700000000005,"data":'
    b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"x"}}}'
)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b'"seq":4', b'"seq":5', MisplacedEventError),
        (b'"seq":4', b'"seq":4.0', InvalidEventError),
        (b'"time":1', b'"time":-', InvalidEventError),
        (b'"time":1', b'"time":0', UnreadableRowError),
        (b'"time":1', b'"time":9007199254740993', ValueError),
        (b'"turn":1', b'"turn":1.0', InvalidEventError),
        (b'"step":1', b'"step":true', InvalidEventError),
        (b'"index":0', b'"index":0.0', InvalidEventError),
        (b'"index":0', b'"index":false', InvalidEventError),
        (b'"text":"x"', b'"text":["x"]', InvalidEventError),
        (b'"text":"x"', b'"txt":"x"', InvalidEventError),
        (b'"text":"x"', b'"text":"x","more":1', InvalidEventError),
        (b'"step":1', b'"step":1,"more":1', InvalidEventError),
        (b',"data"', b',"more":1,"data"', InvalidEventError),
        (b'"data":', b'"data":[1],"Data":', InvalidEventError),
        (b'"x"}}}', b'"x"}}', UnreadableRowError),
        (DELTA, b"[1,2,3,4]", InvalidEventError),
        (DELTA, b'"text"', InvalidEventError),
    ],
)
def test_a_row_within_a_run_is_read_as_exactly_as_any(
    old: bytes, new: bytes, error: type[Exception]
) -> None:
    """S-083, S-023: Malformed rows are refused, and the log stays as it was."""
    session = _session([(TextDelta(0, "x"), 1, 3)])
    spoiled = DELTA.replace(old, new)
    assert spoiled != DELTA
    for read in (_read, _extended):
        reader = read(event_lines(session.events[:4]))
        with pytest.raises(error):
            reader.add(spoiled)
        with pytest.raises(error):
            reader.extend([spoiled + b"\n"])
        assert reader.events == session.events[:4]
        reader.extend([DELTA + b"\n"])
        assert reader.events[4].view == AssistantChunk(1, 1, TextDelta(0, "x"))


def _outcome(read: Callable[[list[bytes]], LogReader], lines: list[bytes]) -> object:
    try:
        return list(read(lines).events)
    except HarnessError as error:
        return type(error), str(error)


@given(runs, st.data())
def test_rows_are_read_together_as_one_by_one(
    parts: list[tuple[Chunk, int, int]], data: st.DataObject
) -> None:
    """S-083: Whatever is wrong with one of them."""
    lines = event_lines(_session(parts).events)
    at = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[at]) - 1))
    other = data.draw(st.sampled_from([b"", b"0", b"-", b'"', b",", b"\\", b"}", b"\xff", b" "]))
    lines[at] = lines[at][:place] + other + lines[at][place + data.draw(st.integers(0, 1)) :]

    assert _outcome(_extended, lines) == _outcome(_read, lines)


@pytest.mark.parametrize("place", [0, 1, 7, 8])
def test_rows_before_a_faulty_one_are_read(place: int) -> None:
    """S-083: `next_seq` tells which one it is, and the others can follow."""
    session = _session([(TextDelta(0, "x"), 1, 9)])
    lines = event_lines(session.events)[1:10]
    reader = _read(event_lines(session.events[:1]))
    with pytest.raises(UnreadableRowError):
        reader.extend([*lines[:place], b"{\n", *lines[place:]])
    assert reader.next_seq == 1 + place
    reader.extend(lines[place:])

    assert reader.events == session.events[:10]


@pytest.mark.parametrize(
    ("old", "new"), [(b"\n", b"\r\n"), (b"\n", b""), (b'"time":', b'"time": '), (b':"x', b': "x')]
)
def test_rows_of_another_writing_say_the_same(old: bytes, new: bytes) -> None:
    """S-083: White space means nothing, and a line break is none of the row."""
    session = _session([(TextDelta(0, "x"), 1, 9)])
    lines = [line.replace(old, new) for line in event_lines(session.events)]
    assert lines != event_lines(session.events)

    assert _extended(lines).events == session.events


@pytest.mark.parametrize("mark", [b',"ignorable":true', b',"lossy":true'])
def test_a_marked_row_within_a_run_keeps_its_mark(mark: bytes) -> None:
    """S-083: What is not plainly the next text is no part of the run."""
    session = _session([(TextDelta(0, "x"), 1, 3)])
    reader = _read(event_lines(session.events[:4]))
    reader.add(DELTA.replace(b',"data"', mark + b',"data"'))

    assert reader.events[4].ignorable == (mark == b',"ignorable":true')


def test_a_log_in_memory_costs_a_fraction_of_its_events() -> None:
    """S-106: The events of a run are never all there at once."""
    lines = [
        DELTA.replace(b'"seq":4', b'"seq":%d' % seq).replace(b'"x"', b'"%04d"' % (seq % 10)) + b"\n"
        for seq in range(5000)
    ]
    gc.collect()
    tracemalloc.start()
    try:
        reader = _extended(lines)
        events = reader.events
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert held / len(events) < 40
    assert events[4711].view == AssistantChunk(1, 1, TextDelta(0, "0001"))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], None),
        ([("turn/start", TurnStart(1))], LastTurn(1, None)),
        ([("turn/start", TurnStart(1)), ("step/start", StepStart(1, 1))], LastTurn(1, None)),
        ([("turn/end", TurnEnd(3, Completed()))], LastTurn(3, Completed())),
        (
            [("turn/end", TurnEnd(3, Interrupted())), ("turn/start", TurnStart(4))],
            LastTurn(4, None),
        ),
        ([("step/end", StepEnd(2, 1)), ("x/y", {})], LastTurn(2, None)),
    ],
)
def test_the_end_of_a_log_tells_about_its_last_turn(
    events: list[tuple[str, Any]], expected: LastTurn | None
) -> None:
    """M-117: From the newest event back to the first that belongs to a turn."""
    session = Session()
    for name, view in events:
        session.append(name, view, ignorable=name == "x/y")

    assert last_turn(reversed(session.events)) == expected
