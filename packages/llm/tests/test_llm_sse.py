from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terret_llm.sse import EventTooLargeError, SseDecoder, SseEvent


def decoded(*pieces: bytes, limit: int = 1000) -> list[SseEvent]:
    decoder = SseDecoder(max_event_bytes=limit)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def bytewise(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\ndata\n\n", [b"a\n"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": ping\n\ndata: a\n: ping\n\n:\n\n", [b"a"]),
        (b"id: 7\nretry: 10\nx-heartbeat: 1\ndata: a\n\n\n\n", [b"a"]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"dataset: a\n\n", []),
        ("data: \u2028\x85\x0b\x0c\n\n".encode(), ["\u2028\x85\x0b\x0c".encode()]),
        (b"", []),
    ],
)
def test_the_events_of_a_body_do_not_depend_on_how_it_is_cut(
    body: bytes, data: list[bytes]
) -> None:
    """B-001, B-004, B-005, B-006, B-007, B-008: every cut gives the events of the whole."""
    assert [event.data for event in decoded(body)] == data
    assert decoded(*bytewise(body)) == decoded(body)
    for cut in range(len(body)):
        assert decoded(body[:cut], body[cut:]) == decoded(body)


def test_a_comment_after_an_id_dispatches_nothing() -> None:
    """B-002: a blank line is an event only if data came before it."""
    body = b"id: 7\ndata: x\n\n: ping\n\nevent: error\n\ndata: y\n\n"
    assert decoded(body) == [SseEvent(b"x"), SseEvent(b"y")]


def test_an_event_has_its_name() -> None:
    body = b"event: error\ndata: {}\n\ndata: plain\n\n"
    assert decoded(body) == [SseEvent(b"{}", "error"), SseEvent(b"plain")]


lines = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b": c",
        b"event: e",
        b"",
        b"",
        "data: 日本🌍".encode(),
        b"x: y",
    ]
)
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(lines, ends)), st.lists(st.integers(0, 80)))
def test_any_cuts_give_equal_events(parts: list[tuple[bytes, bytes]], at: list[int]) -> None:
    """B-004, B-006: also between CR and LF and inside a character."""
    body = b"".join(line + end for line, end in parts)
    cuts = sorted({0, len(body), *(cut for cut in at if cut < len(body))})
    pieces = [body[a:b] for a, b in pairwise(cuts)]
    assert decoded(*pieces) == decoded(body) == decoded(*bytewise(body))


@pytest.mark.parametrize("body", [b"data: 12345678901\n\n", b"data: 123\ndata: 45678901\n\n"])
def test_an_oversized_event_is_an_error_after_those_before_it(body: bytes) -> None:
    """The limit holds for one long line and for many short ones, however they are cut."""
    for pieces in ([b"data: ok\n\n" + body], bytewise(b"data: ok\n\n" + body)):
        decoder = SseDecoder(max_event_bytes=12)
        events: list[SseEvent] = []
        with pytest.raises(EventTooLargeError) as raised:
            feed_all(decoder, [*pieces, b"data: more\n\n"], events)
        assert events == [SseEvent(b"ok")]
        assert (raised.value.limit, raised.value.code) == (12, "MALFORMED_RESPONSE")


def feed_all(decoder: SseDecoder, pieces: list[bytes], events: list[SseEvent]) -> None:
    for piece in pieces:
        events += decoder.feed(piece)


def test_events_below_the_limit_pass_however_many_they_are() -> None:
    assert len(decoded(b"data: 12345\n\n" * 100, limit=12)) == 100
