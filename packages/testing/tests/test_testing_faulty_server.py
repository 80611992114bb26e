"""The faulty model server, seen by a plain HTTP client."""

import itertools
import socket
from typing import Any

import anyio
import httpx2
import pytest

from terret_testing import (
    FaultyModelServer,
    ServerExhaustedError,
    WireAnswer,
    chat_answer,
    event_answer,
    messages_answer,
    random_faults,
    raw_answer,
    silent_answer,
    status_answer,
)

HELLO = chat_answer("Hello")


async def post(server: FaultyModelServer, client: httpx2.AsyncClient) -> httpx2.Response:
    with anyio.fail_after(10):
        return await client.post(f"{server.url}/chat/completions", json={"model": "m"})


async def answered(answer: WireAnswer) -> httpx2.Response:
    async with FaultyModelServer(answer) as server, httpx2.AsyncClient() as client:
        return await post(server, client)


async def test_answers_come_in_the_order_of_the_script_over_one_connection() -> None:
    """M-115: also answers that are made from the request."""

    async with (
        FaultyModelServer(HELLO, lambda request: raw_answer(request.json["model"])) as server,
        httpx2.AsyncClient() as client,
    ):
        assert (await post(server, client)).content == HELLO.body
        assert (await post(server, client)).text == "m"
    assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 2
    assert server.requests[0].headers["content-type"] == "application/json"
    assert server.connections == 1


@pytest.mark.parametrize("cut", ["whole", "bytes", "characters", "line-ends", 7])
async def test_however_it_is_cut_the_body_is_the_same(cut: Any) -> None:
    """M-115: cuts inside characters and between CR and LF."""
    answer = chat_answer("日本語 🌍").with_line_ends("\r\n").in_pieces(cut)
    assert len(list(answer.pieces())) > (cut != "whole")
    assert (await answered(answer)).content == answer.body


def test_the_cuts_are_where_they_hurt() -> None:
    """M-115: each piece but the first begins inside a character, or with the LF of a CRLF."""
    characters = list(raw_answer("日本").in_pieces("characters").pieces())
    assert [len(piece) for piece in characters] == [1, 1, 2, 1, 1]
    lines = list(raw_answer("a\n\nb").with_line_ends("\r\n").in_pieces("line-ends").pieces())
    assert lines == [b"a\r", b"\n\r", b"\nb"]


@pytest.mark.parametrize("answer", [HELLO.hangs_up(9), HELLO.resets(9)])
async def test_a_broken_connection_is_seen_as_one(answer: WireAnswer) -> None:
    """M-115: closed or reset before the end of the body."""
    with pytest.raises(httpx2.HTTPError):
        await answered(answer)


@pytest.mark.parametrize(
    "answer", [silent_answer(), HELLO.holds(), HELLO.holds(9, ping=b": ping\n\n")]
)
async def test_a_stall_lasts_until_the_client_goes_away(answer: WireAnswer) -> None:
    """M-115: without headers, after the body, or with pings; the server notices the end."""
    async with FaultyModelServer(answer) as server, httpx2.AsyncClient() as client:
        with anyio.move_on_after(0.05) as scope:
            await client.post(server.url, json={})
        assert scope.cancelled_caught
        with anyio.fail_after(10):
            await server.left_by(1)


async def test_statuses_and_foreign_bodies() -> None:
    """M-115: refusals with their headers, a page instead of an answer, nothing at all."""
    refused = await answered(status_answer(429, retry_after="2"))
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
    assert refused.json() == {"error": {"message": "status 429"}}
    page = await answered(raw_answer("<html>", content_type="text/html"))
    assert (page.text, page.headers["content-type"]) == ("<html>", "text/html")
    assert (await answered(HELLO.ends(0))).content == b""


def test_good_answers_hold_what_they_were_made_of() -> None:
    calls = [("c1", "add", '{"x":1}')]
    chat = chat_answer("Hi", reasoning="hm", calls=calls, usage=(3, 2)).body
    for part in (b'"Hi"', b'"hm"', b'"c1"', b'"tool_calls"', b'"prompt_tokens": 3', b"[DONE]"):
        assert part in chat
    messages = messages_answer("Hi", thinking=("hm", "c2ln"), calls=calls, usage=(3, 2)).body
    for part in (b'"Hi"', b'"c2ln"', b'"tool_use"', b'"input_tokens": 3', b"event: message_stop"):
        assert part in messages
    assert event_answer("x", names=["e"]).body == b"event: e\ndata: x\n\n"
    assert HELLO.with_comments(":").body.startswith(b":\n\ndata: ")


async def test_a_script_that_is_too_short_fails_the_test() -> None:
    """M-115: the client gets a status, leaving raises."""
    with pytest.raises(ServerExhaustedError, match="no answer to request 1"):
        async with FaultyModelServer() as server, httpx2.AsyncClient() as client:
            assert (await post(server, client)).status_code == 500


async def test_a_bad_request_takes_no_answer() -> None:
    """M-115: no JSON, no object, no POST."""
    async with FaultyModelServer(HELLO) as server, httpx2.AsyncClient() as client:
        for sent in (b"{", b"[]", b""):
            assert (await client.post(server.url, content=sent)).status_code == 400
        assert (await client.get(server.url)).status_code == 400
        assert len(server.refused) == 4
        assert (await post(server, client)).content == HELLO.body


@pytest.mark.parametrize(
    "sent", [b"hello\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", b"x" * 65_536]
)
async def test_what_is_no_request_is_refused_and_the_server_goes_on(sent: bytes) -> None:
    """M-115: whatever knocks at its port, and the test learns of it."""
    async with FaultyModelServer(HELLO) as server, httpx2.AsyncClient() as client:
        name, _, port = server.host.rpartition(":")
        async with await anyio.connect_tcp(name, int(port)) as stream:
            await stream.send(sent)
            assert (await stream.receive()).startswith(b"HTTP/1.1 400")
        assert server.refused == ["no HTTP request"]
        assert (await post(server, client)).content == HELLO.body


async def test_the_list_of_models_takes_no_answer() -> None:
    async with FaultyModelServer(models=("a", "b")) as server, httpx2.AsyncClient() as client:
        listed = (await client.get(f"{server.url}/models")).json()
    assert [model["id"] for model in listed["data"]] == ["a", "b"]


def test_random_faults_are_reproducible() -> None:
    """M-115: the same seed gives the same faults, another one others."""

    def first(seed: int) -> list[WireAnswer]:
        return list(itertools.islice(random_faults(HELLO, seed=seed), 50))

    assert first(1) == first(1)
    assert first(1) != first(2)
    assert len({(answer.ending, answer.status, answer.cut) for answer in first(1)}) > 8


async def test_random_faults_go_on_where_the_script_ends() -> None:
    """M-115: each request gets its fault, in the order of the generator."""
    faults = itertools.repeat(status_answer(503))
    async with FaultyModelServer(HELLO, then=faults) as server, httpx2.AsyncClient() as client:
        statuses = [(await post(server, client)).status_code for _ in range(3)]
    assert statuses == [200, 503, 503]


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
async def test_an_ipv6_address_stands_in_brackets() -> None:
    """M-115: in the URL."""
    try:
        async with FaultyModelServer(HELLO, host="::1") as server, httpx2.AsyncClient() as client:
            assert server.url.startswith("http://[::1]:")
            assert (await post(server, client)).content == HELLO.body
    except OSError:
        pytest.skip("the loopback interface has no IPv6 address")
