"""What is asked, and what the answers become."""

import json
from typing import Any

import httpx2
import pytest

from scripted_service import ScriptedService
from terret_client import (
    Accepted,
    Answer,
    ApiError,
    ApprovalPending,
    MalformedAnswerError,
    QuestionPending,
    TerretClient,
    UnreachableError,
)

DONE = {"type": "done", "text": "hi"}
ANSWER: dict[str, Any] = {"text": "hi", "sessionId": "s-1", "events": [DONE], "cursor": "9.1"}
APPROVAL: dict[str, Any] = {
    "pending": True,
    "type": "approval",
    "id": "p-1",
    "sessionId": "s-1",
    "tool": "refund",
    "args": {"amount": 3},
    "reason": "matched rule 'careful'",
    "events": [{"type": "session", "sessionId": "s-1"}],
    "cursor": "4.0",
    "queued": True,
}
QUESTION = {**APPROVAL, "type": "question", "question": "Which?", "options": ["a", "b"]}


async def test_a_turn_that_is_over_is_an_answer() -> None:
    service = ScriptedService().json(200, {**ANSWER, "stopReason": "denied", "mood": "good"})
    async with service.client() as client:
        reply = await client.send_message(
            "shop",
            "hello",
            session_id="s-1",
            message_id="m-1",
            when_busy="steer",
            metadata={"user": "ann"},
        )
    assert isinstance(reply, Answer)
    assert (reply.text, reply.session_id, reply.cursor) == ("hi", "s-1", "9.1")
    assert [event.data for event in reply.events] == [DONE]
    assert (reply.stop_reason, reply.body["mood"]) == ("denied", "good")
    assert service.lines == ["POST /agents/shop/messages -"]
    assert json.loads(service.requests[0].content) == {
        "message": "hello",
        "sessionId": "s-1",
        "messageId": "m-1",
        "whenBusy": "steer",
        "user": "ann",
    }


async def test_a_loop_over_the_family_ends_with_the_answer() -> None:
    """E-533: Each function answers with what comes next."""
    service = ScriptedService().json(202, APPROVAL).json(202, QUESTION).json(200, ANSWER)
    async with service.client() as client:
        reply = await client.send_message("shop", "hello")
        while not isinstance(reply, Answer):
            match reply:
                case ApprovalPending(id=id, tool="refund", args={"amount": 3}):
                    reply = await client.approve_call(id, args={"amount": 2}, note="less")
                case QuestionPending(id=id, question="Which?", options=("a", "b")):
                    reply = await client.answer_question(id, "b")
    assert service.lines[1:] == ["POST /approvals/p-1/approve -", "POST /questions/p-1/answer -"]
    bodies = [json.loads(request.content) for request in service.requests[1:]]
    assert bodies == [{"args": {"amount": 2}, "note": "less"}, {"answer": "b"}]


async def test_a_decision_need_not_be_waited_for() -> None:
    """E-146."""
    service = ScriptedService().json(200, {"ok": True, "sessionId": "s-1", "statusUrl": "/x"})
    async with service.client() as client:
        assert await client.deny_call("p-1", note="no", wait=False) == Accepted(
            session_id="s-1", body={"ok": True, "sessionId": "s-1", "statusUrl": "/x"}
        )
    assert service.lines == ["POST /approvals/p-1/deny?wait=false -"]
    assert json.loads(service.requests[0].content) == {"note": "no"}


async def test_names_are_one_segment_of_the_path_whatever_they_are_made_of() -> None:
    service = ScriptedService()
    for _ in range(3):
        service.json(200, {"cancelled": False, "sessionId": "a/b"})
    async with service.client(token="t", headers={"X-Tenant": "acme"}) as client:
        assert not await client.cancel("sh op", "a/b?ü", keep_inbox=True)
        for dots in (".", ".."):
            await client.cancel("shop", dots)
    assert service.lines == [
        "POST /agents/sh%20op/sessions/a%2Fb%3F%C3%BC/cancel -",
        "POST /agents/shop/sessions/%2E/cancel -",
        "POST /agents/shop/sessions/%2E%2E/cancel -",
    ]
    request = service.requests[0]
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["x-tenant"] == "acme"
    assert json.loads(request.content) == {"keepInbox": True, "wait": True}


async def test_a_session_is_read_with_its_cursor() -> None:
    body: dict[str, Any] = {"sessionId": "s-1", "status": "waiting"}
    body |= {"history": [{"role": "user"}]}
    body |= {"pending": [{"id": "p-1"}], "cursor": "4.0", "usage": {"input": 3}}
    service = ScriptedService().json(200, body)
    async with service.client() as client:
        history = await client.get_session_history("shop", "s-1")
    assert (history.status, history.cursor, history.body) == ("waiting", "4.0", body)
    assert (history.history, history.pending) == (({"role": "user"},), ({"id": "p-1"},))


async def test_sessions_are_listed_page_by_page() -> None:
    one = {"sessionId": "s-1", "status": "idle", "turns": 2}
    service = ScriptedService().json(200, {"sessions": [one], "nextCursor": "c"})
    service.json(200, {"sessions": []})
    async with service.client() as client:
        first = await client.list_sessions("shop", limit=1)
        last = await client.list_sessions("shop", limit=1, cursor=first.next_cursor)
    assert [(each.session_id, each.body["turns"]) for each in first.sessions] == [("s-1", 2)]
    assert (last.sessions, last.next_cursor) == ((), None)
    assert service.lines[1] == "GET /agents/shop/sessions?limit=1&cursor=c -"


async def test_an_error_of_the_service_is_typed() -> None:
    body = {"error": "busy", "code": "session_busy", "errorId": "e-1", "sessionId": "s-1"}
    service = ScriptedService().json(409, {**body, "cursor": "4.0"}, **{"Retry-After": "5"})
    async with service.client() as client:
        with pytest.raises(ApiError, match=r"409 session_busy: busy \(errorId e-1\)") as raised:
            await client.send_message("shop", "hello")
    error = raised.value
    assert (error.status, error.code, error.error, error.error_id) == (
        409,
        "session_busy",
        "busy",
        "e-1",
    )
    assert (error.session_id, error.retry_after, error.body["cursor"]) == ("s-1", 5, "4.0")


async def test_an_error_of_something_in_between_has_its_status() -> None:
    service = ScriptedService()
    service.answers.append(httpx2.Response(502, text="<h1>Bad gateway</h1>"))
    async with service.client() as client:
        with pytest.raises(ApiError, match="502 http: Bad Gateway"):
            await client.list_sessions("shop")


@pytest.mark.parametrize("content", [b"[]", b"hi", b"{}", b'{"sessions": [3]}'])
async def test_an_answer_that_makes_no_sense_is_an_error_of_its_own(content: bytes) -> None:
    service = ScriptedService()
    service.answers.append(httpx2.Response(200, content=content))
    async with service.client() as client:
        with pytest.raises(MalformedAnswerError, match="GET /agents/shop/sessions"):
            await client.list_sessions("shop")


async def test_no_answer_is_an_error_that_names_the_request() -> None:
    async with TerretClient("http://127.0.0.1:1") as client:
        with pytest.raises(UnreachableError, match=r"GET /agents/shop/sessions: .+") as raised:
            await client.list_sessions("shop")
    assert (raised.value.method, raised.value.url) == ("GET", "/agents/shop/sessions")
