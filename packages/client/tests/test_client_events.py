"""Bytes become events, however they are cut and whatever is added to them."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_client import Event, EventDecoder, MalformedAnswerError

FRAMES = json.loads(Path(__file__).with_name("frames.json").read_text("utf-8"))


def decoded(*pieces: bytes) -> tuple[list[dict[str, Any]], str | None, float | None]:
    decoder = EventDecoder()
    events = [asdict(event) for piece in pieces for event in decoder.feed(piece)]
    return events, decoder.last_id, decoder.retry


def bytewise(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


@pytest.mark.parametrize("case", FRAMES, ids=lambda case: str(case["case"]))
def test_frames_are_read_the_same_whole_and_at_every_cut(case: dict[str, Any]) -> None:
    """E-012, E-111, E-115, E-531: Unknown types and fields are passed on as they are."""
    body = case["stream"].encode()
    expected = (case["events"], case["lastId"], case["retry"])
    assert decoded(body) == expected
    assert decoded(*bytewise(body)) == expected
    for cut in range(len(body)):
        assert decoded(body[:cut], b"", body[cut:]) == expected


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)
ends = st.sampled_from([b"\n", b"\r", b"\r\n"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    """A stream of events as bytes, and the events."""
    body, events = b"", []
    for number in range(draw(st.integers(0, 4))):
        data = {**draw(objects), "type": draw(texts.filter(bool))}
        text = json.dumps(
            data, ensure_ascii=draw(st.booleans()), indent=draw(st.none() | st.just(1))
        )
        colon, end = draw(st.sampled_from([b":", b": "])), draw(ends)
        lines = [b"data" + colon + part for part in text.encode().split(b"\n")]
        lines += [draw(st.sampled_from([b": hm", b"x: y"])), f"id: {number}.0".encode(), b"", b""]
        body += b"".join(line + end for line in lines)
        events.append({"type": data["type"], "data": data, "cursor": f"{number}.0"})
    return body, events


@given(streams(), st.lists(st.integers(0, 300)))
def test_any_cuts_and_line_ends_give_the_events(
    stream: tuple[bytes, list[dict[str, Any]]], at: list[int]
) -> None:
    """E-111, E-531: Also between CR and LF, and inside a character."""
    body, events = stream
    cuts = sorted({0, len(body), *(cut for cut in at if cut < len(body))})
    assert decoded(*(body[a:b] for a, b in pairwise(cuts)))[0] == events
    assert decoded(*bytewise(body))[0] == events


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"data: {\n\n", "no JSON"),
        (b"data: \xff\n\n", "no JSON"),
        (b"data: [1]\n\n", "a JSON list, not an object"),
        (b'data: {"text": "hi"}\n\n', "without a type"),
        (b'data: {"type": 3}\n\n', "without a type"),
    ],
)
def test_what_is_no_event_is_an_error(data: bytes, problem: str) -> None:
    with pytest.raises(MalformedAnswerError, match=problem):
        EventDecoder().feed(data)


@pytest.mark.parametrize("body", [b"data: 12345678901\n\n", b"data: 1234\ndata: 5678901\n\n"])
def test_an_event_that_is_too_large_is_an_error_before_it_is_complete(body: bytes) -> None:
    for pieces in ([body], bytewise(body[:-2])):
        fed = map(EventDecoder(max_event_bytes=10).feed, pieces)
        with pytest.raises(MalformedAnswerError, match="more than 10 bytes"):
            list(fed)


def test_a_limit_holds_for_each_event_and_not_for_their_sum() -> None:
    decoder = EventDecoder(max_event_bytes=40)
    one = b'event: done\ndata: {"type":"done"}\n\n'
    assert len(decoder.feed(one * 100)) == 100
    assert sum(len(decoder.feed(piece)) for piece in bytewise(one * 100)) == 100


def test_a_line_of_the_command_is_read_as_an_event() -> None:
    event = Event.parse('{"type":"done","text":"hi","mood":"good"}\n')
    assert (event.type, event.data["mood"], event.terminal) == ("done", "good", True)
    assert not Event.parse('{"type":"loop:done","text":"hi"}').terminal
