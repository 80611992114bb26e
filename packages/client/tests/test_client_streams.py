"""A stream is followed over broken connections, and nothing is missed or comes twice."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream

from scripted_service import ScriptedService, frame
from terret_client import (
    Event,
    MalformedAnswerError,
    StreamLostError,
    TerretClient,
    UnreachableError,
)

virtual_time = pytest.mark.virtual_time
TURN = (
    b"retry: 2000\n\n",
    frame("session", "1.0", sessionId="s-1"),
    frame("loop:done", "9.0"),
    frame("done", "9.1", text="hi"),
)
NAMES = ["session", "loop:done", "done"]


async def taken(stream: AsyncGenerator[Event]) -> list[Event]:
    async with aclosing(stream) as events:
        return [event async for event in events]


def names(events: list[Event]) -> list[str]:
    return [event.type for event in events]


async def streamed(service: ScriptedService, **settings: Any) -> list[Event]:
    async with service.client(**settings) as client:
        return await taken(client.stream_message("shop", "hello", session_id="s-1"))


def sent(service: ScriptedService, index: int = 0) -> Any:
    return json.loads(service.requests[index].content)


@virtual_time
async def test_a_turn_ends_with_its_terminal_though_the_connection_stays() -> None:
    """E-530: What follows the terminal is not waited for."""
    service = ScriptedService().stream(*TURN, frame("late", "10.0"), cut=True)
    events = await streamed(service)
    assert names(events) == NAMES
    assert (events[-1].cursor, events[-1].data["text"]) == ("9.1", "hi")
    assert service.lines == ["POST /agents/shop/messages/stream -"]


@virtual_time
@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("place", [1, 10, len(TURN[0] + TURN[1]), len(b"".join(TURN)) - 1])
async def test_a_broken_stream_is_taken_up_after_its_last_id(place: int, cut: bool) -> None:
    """E-116, E-530: A frame that was not complete does not count."""
    whole = b"".join(TURN)
    got = whole[:place].count(b"\n\n") - 1
    service = ScriptedService().stream(whole[:place], cut=cut)
    service.stream(*(TURN if got < 1 else TURN[got + 1 :]))
    assert names(await streamed(service)) == NAMES
    if got < 1:
        assert service.lines[1] == "POST /agents/shop/messages/stream -"
        assert sent(service, 1) == sent(service, 0)  # one message, by its id
    else:
        cursor = {1: "1.0", 2: "9.0"}[got]
        assert service.lines[1] == (
            f"GET /agents/shop/sessions/s-1/events?follow=turn&protocol=v1 {cursor}"
        )


@virtual_time
@pytest.mark.parametrize("seen", [0, 1])
async def test_the_session_that_the_service_chose_is_asked_again(seen: int) -> None:
    """Its name is in a header, where some characters cannot stand, and in the first event."""
    begin = (b"retry: 1\n\n", frame("session", "1.0", sessionId="\u00e4 50%25"))[: seen + 1]
    service = ScriptedService().stream(*begin, cut=True, session="%C3%A4").stream(*TURN[seen + 1 :])
    async with service.client() as client:
        events = await taken(client.stream_message("shop", "hello"))
    assert names(events) == NAMES
    assert "sessionId" not in sent(service)
    if seen:
        assert service.lines[1].startswith("GET /agents/shop/sessions/%C3%A4%2050%2525/events")
    else:
        assert sent(service, 1)["sessionId"] == "\u00e4"


@virtual_time
async def test_events_without_a_cursor_are_not_told_twice() -> None:
    """A message that was dropped has two events without a place; the same answer comes again."""
    session, error = frame("session"), frame("error", error="dropped")
    service = ScriptedService().stream(session, cut=True).stream(session, error)
    assert names(await streamed(service)) == ["session", "error"]


@virtual_time
async def test_waits_begin_with_what_the_service_asks_for_and_grow() -> None:
    """E-530: Each is at most a quarter longer, so that clients do not come back all at once."""
    service = ScriptedService().stream(b"retry: 500\n\n", TURN[1], cut=True)
    service.nothing(4).stream(*TURN[2:])
    begun = anyio.current_time()
    assert names(await streamed(service)) == NAMES
    waited = anyio.current_time() - begun
    assert 0.5 * 31 <= waited <= 0.5 * 31 * 1.25 + 1


@virtual_time
async def test_the_wait_that_a_busy_service_names_is_kept() -> None:
    """A refusal that may pass is no answer of the turn."""
    service = ScriptedService().stream(*TURN[:2], cut=True)
    service.json(429, {"code": "too_many_turns"}, **{"Retry-After": "60"})
    service.json(503, {"code": "draining"}).stream(*TURN[2:])
    begun = anyio.current_time()
    assert names(await streamed(service)) == NAMES
    assert anyio.current_time() - begun >= 2 + 60 + 4


@virtual_time
async def test_a_stream_that_stays_lost_says_where_it_was() -> None:
    service = ScriptedService().stream(*TURN[:2], cut=True).nothing(3)
    with pytest.raises(StreamLostError, match=r"cursor '1.0', and 3 attempts") as raised:
        await streamed(service, attempts=3)
    lost = raised.value
    assert (lost.session_id, lost.cursor, lost.attempts) == ("s-1", "1.0", 3)
    service.stream(*TURN[2:])
    async with service.client() as client:
        rest = await taken(client.stream_events("shop", "s-1", after=lost.cursor))
    assert names(rest) == NAMES[1:]


@virtual_time
async def test_events_and_long_connections_begin_the_attempts_anew() -> None:
    """Whoever waits long for a person is cut often by what stands between, and stays."""
    service = ScriptedService()
    for _ in range(5):
        service.stream(b"retry: 2000\n\n")
        service.answers.append(silent(3600))
    service.stream(*TURN)
    assert names(await streamed(service, attempts=2)) == NAMES


def silent(seconds: float) -> httpx2.Response:
    async def body() -> AsyncGenerator[bytes]:
        yield b": keep-alive\n\n"
        await anyio.sleep(seconds)

    return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=body())


@virtual_time
async def test_without_a_first_answer_there_is_nothing_to_take_up() -> None:
    service = ScriptedService().nothing()
    with pytest.raises(UnreachableError, match=r"POST http://service/agents/shop.*: refused"):
        await streamed(service)


@virtual_time
@pytest.mark.parametrize("after", [0, 2])
async def test_an_answer_that_is_no_stream_is_one_error_event(after: int) -> None:
    """E-532: At first, and when the service will not go on."""
    service = ScriptedService()
    if after:
        service.stream(*TURN[:after], cut=True)
    service.json(404, {"error": "no agent shop", "code": "unknown_agent", "errorId": "e-1"})
    *before, error = await streamed(service)
    assert names(before) == NAMES[: after // 2]
    assert error.terminal
    assert error.data == {
        "type": "error",
        "error": "no agent shop",
        "code": "unknown_agent",
        "errorId": "e-1",
        "status": 404,
    }


@virtual_time
async def test_a_turn_whose_end_a_crash_took_back_ends_with_an_error() -> None:
    """E-004, E-530: Every stream of a turn has a last event."""
    service = ScriptedService().stream(*TURN[:2], cut=True)
    service.answers.append(httpx2.Response(204))
    assert names(await streamed(service)) == ["session", "error"]


@virtual_time
@pytest.mark.parametrize("status", [200, 500])
async def test_a_page_of_something_in_between_is_an_error_event_too(status: int) -> None:
    """E-532."""
    service = ScriptedService()
    service.answers.append(httpx2.Response(status, html="<h1>Welcome</h1>"))
    [error] = await streamed(service)
    assert (
        error.data["error"]
        == {
            200: "no event stream but text/html; charset=utf-8",
            500: "Internal Server Error",
        }[status]
    )


@virtual_time
async def test_what_is_no_event_ends_the_stream() -> None:
    service = ScriptedService().stream(TURN[1], b"data: [1]\n\n")
    with pytest.raises(MalformedAnswerError):
        await streamed(service)


@virtual_time
async def test_a_session_is_followed_over_its_turns() -> None:
    """E-120: Only the reader ends it."""
    service = ScriptedService().stream(*TURN, frame("session", "10.0"), cut=True)
    service.stream(frame("done", "19.1"), frame("session", "20.0"))
    seen = []
    async with service.client() as client:
        stream = client.stream_events("shop", "s-1", after="0", follow="session")
        async with aclosing(stream) as events:
            async for event in events:
                seen.append(event.cursor)
                if event.cursor == "20.0":
                    break
    assert seen == ["1.0", "9.0", "9.1", "10.0", "19.1", "20.0"]
    url = "GET /agents/shop/sessions/s-1/events?follow=session&protocol=v1"
    assert service.lines == [f"{url}&after=0 -", f"{url} 10.0"]


@virtual_time
async def test_the_log_is_followed_to_the_end_of_the_turn() -> None:
    """E-121: Its last event has another name."""
    service = ScriptedService().stream(frame("done", "3"), frame("turn/end", "4"), cut=True)
    async with service.client() as client:
        events = await taken(client.stream_events("shop", "s-1", protocol="log"))
    assert names(events) == ["done", "turn/end"]
    assert "protocol=log" in service.lines[0]


@virtual_time
async def test_a_stream_ends_if_nothing_follows() -> None:
    """E-119."""
    service = ScriptedService()
    service.answers.append(httpx2.Response(204))
    async with service.client() as client:
        assert await taken(client.stream_events("shop", "s-1", after="9.1")) == []


async def test_a_stream_of_a_real_connection_is_left_in_the_middle() -> None:
    """Nothing of it is left behind, and the service sees its client go."""
    left = anyio.Event()

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
            await stream.send(head.encode() + TURN[1])
            with suppress(anyio.BrokenResourceError):
                async for _ in stream:  # what is left of the request
                    pass
            left.set()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        async with TerretClient(f"http://127.0.0.1:{port}") as client:
            async with aclosing(client.stream_message("shop", "hello")) as events:
                assert (await anext(events)).type == "session"
            await left.wait()
        tasks.cancel_scope.cancel()
