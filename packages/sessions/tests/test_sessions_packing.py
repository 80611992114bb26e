import gc
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    FinishChunk,
    ReasoningDelta,
    TextBlock,
    TextDelta,
    ToolCallDelta,
)
from terret_sessions import (
    AssistantChunk,
    Session,
    SessionEvent,
    StepEnd,
    TurnStart,
    event_from_json,
    event_lines,
    event_to_json,
    without_chunks,
)
from terret_sessions._views import EventsView

texts = st.text(max_size=5)
indexes = st.integers(0, 1)
chunks: st.SearchStrategy[Chunk] = st.one_of(
    st.builds(TextDelta, indexes, texts),
    st.builds(ReasoningDelta, indexes, texts),
    st.builds(ToolCallDelta, indexes, st.sampled_from(["a", "b"]), st.none() | texts, texts),
    st.builds(BlockStart, indexes, st.just("text")),
    st.builds(BlockEnd, indexes, st.builds(TextBlock, texts)),
    st.just(FinishChunk(Finish.stop())),
)
runs = st.lists(st.tuples(chunks, st.integers(1, 6)), max_size=12)


def _log(parts: list[tuple[Chunk, int]]) -> Session:
    session = Session()
    session.append("turn/start", TurnStart(1))
    for chunk, count in parts:
        for _ in range(count):
            session.append("assistant/chunk", AssistantChunk(1, 1, chunk))
    return session


def _pack(session: Session) -> list[SessionEvent]:
    before = list(session.events)
    session.append("step/end", StepEnd(1, 1))
    return before


@given(runs)
def test_a_packed_log_reads_like_the_unpacked_one(parts: list[tuple[Chunk, int]]) -> None:
    """S-083, S-106: inflate(pack(x)) == x, by index, by iteration and by slice."""
    session = _log(parts)
    before = _pack(session)
    events = session.events[:-1]

    assert list(events) == before
    assert [events[seq] for seq in range(len(events))] == before
    assert list(events[::-2]) == before[::-2]
    assert [event_to_json(event) for event in events] == [event_to_json(each) for each in before]


@given(runs)
def test_a_replayed_log_equals_the_packed_one(parts: list[tuple[Chunk, int]]) -> None:
    """S-015, S-106: A seed of inflated events gives the same log, packed again."""
    session = _log(parts)
    _pack(session)

    replay = Session(seed=session.events)

    assert list(replay.events)[:-1] == list(session.events)


@pytest.mark.parametrize(
    ("parts", "nodes"),
    [
        ([(TextDelta(0, "x"), 9)], 1),
        ([(TextDelta(0, "x"), 2)], 2),
        ([(TextDelta(0, "x"), 3), (TextDelta(1, "x"), 3)], 2),
        ([(ReasoningDelta(0, "x"), 3), (TextDelta(1, "x"), 4)], 2),
        ([(ToolCallDelta(0, "a", "f", ""), 1), (ToolCallDelta(0, "a", None, "1"), 5)], 2),
        ([(ToolCallDelta(0, "a", None, "1"), 3), (ToolCallDelta(0, "b", None, "1"), 3)], 2),
        ([(TextDelta(0, "x"), 3), (BlockEnd(0, TextBlock("xxx")), 1), (TextDelta(1, "y"), 3)], 3),
        ([(BlockStart(0, "text"), 4)], 4),
    ],
)
def test_a_run_occupies_one_node(parts: list[tuple[Chunk, int]], nodes: int) -> None:
    """S-083, S-106: Runs of three or more of one kind and block; the others stay single."""
    session = _log(parts)
    _pack(session)
    events = session.events[1:-1]
    assert isinstance(events, EventsView)

    assert len(list(events.parts())) == nodes


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("start", [0, 4])
def test_one_can_go_over_a_log_without_its_chunks(packed: bool, start: int) -> None:
    """S-106: The same events, packed or not, in a log, a part of one, or a list."""
    session = _log([(TextDelta(0, "x"), 9), (BlockEnd(0, TextBlock("x")), 1)])
    if packed:
        _pack(session)
    events = session.events[start:]
    expected = [event for event in events if event.type != "assistant/chunk"]

    assert list(without_chunks(events)) == expected
    assert list(without_chunks(list(events))) == expected


def test_a_view_that_was_taken_before_stays_as_it_was() -> None:
    """S-012, S-106: Packing exchanges nodes under a view, and nobody sees it."""
    session = _log([(TextDelta(0, "x"), 50)])
    view = session.events

    before = _pack(session)

    assert list(view) == before


def test_times_may_go_back_within_a_run() -> None:
    """S-083: A clock that was set back is restored as it was."""
    times = [1_700_000_000_000, 1_699_999_999_000, 1_700_000_000_001]
    seed = [
        SessionEvent("assistant/chunk", seq, time, AssistantChunk(1, 1, TextDelta(0, str(seq))))
        for seq, time in enumerate(times)
    ]
    session = Session(seed=[*seed, SessionEvent("step/end", 3, 1, StepEnd(1, 1))])

    assert list(session.events)[:3] == seed
    assert session.events[1] is not seed[1]


@given(runs, st.data())
def test_rows_are_made_of_packed_events_as_of_single_ones(
    parts: list[tuple[Chunk, int]], data: st.DataObject
) -> None:
    """S-083, M-117: Of any part of a log, while its last run is open and afterwards."""
    session = _log(parts)
    start = data.draw(st.integers(0, len(session.events)))
    stop = data.draw(st.integers(start, len(session.events)))
    for _ in range(2):
        part = session.events[start:stop]
        rows = event_lines(part)
        assert [json.loads(row) for row in rows] == [
            json.loads(event_to_json(event)) for event in part
        ]
        assert [event_from_json(row) for row in rows] == list(part)
        session.append("step/end", StepEnd(1, 1))


def test_a_spoiled_text_in_a_run_costs_its_own_row() -> None:
    """S-108: The other rows of the run are as they were."""
    session = Session()
    for text in ("a", "\ud800", '","', "b"):
        session.append("assistant/chunk", AssistantChunk(1, 1, TextDelta(0, text)))
    rows = [json.loads(row) for row in event_lines(session.events)]

    assert [row["data"]["chunk"]["text"] for row in rows] == ["a", "\ufffd", '","', "b"]
    assert [row.get("lossy", False) for row in rows] == [False, True, False, False]


def test_a_packed_chunk_costs_a_tenth_of_the_memory() -> None:
    """S-106: Once its run is over; a single event is what is read of it."""
    session, single = Session(), []
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(5000):
            chunk = AssistantChunk(1, 1, TextDelta(0, f"{number:04}"))
            session.append("assistant/chunk", chunk)
        del chunk
        session.append("step/end", StepEnd(1, 1))
        packed = tracemalloc.get_traced_memory()[0]
        single = list(session.events)
        unpacked = tracemalloc.get_traced_memory()[0] - packed
    finally:
        tracemalloc.stop()

    assert packed * 8 < unpacked
    assert single[4711].view == AssistantChunk(1, 1, TextDelta(0, "4711"))
