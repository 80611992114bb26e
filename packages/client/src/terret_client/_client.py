"""The client."""

from collections.abc import AsyncGenerator, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self, overload
from uuid import uuid4

import httpx2

from ._events import Event
from ._following import Follower, Place
from ._http import call, path
from ._replies import (
    Accepted,
    Reply,
    SessionHistory,
    SessionPage,
    accepted,
    history,
    page,
    reply,
)

LOCAL: Final = "http://127.0.0.1:8787"
LOST: Final = Event.of({"type": "error", "error": "the service lost the end of this turn"})
WhenBusy = Literal["queue", "steer", "reject"]


class TerretClient:
    """Talks to one service.

    An async context manager; its methods may be used by any number of tasks at once. Each raises
    `ApiError` if the service says no, `UnreachableError` if there is no answer and
    `MalformedAnswerError` if the answer makes no sense. Cancelling a method stops the waiting, not
    the turn: `cancel` does that.

    Args:
        base_url: Where the service is, with its prefix if it has one.
        token: Sent as a bearer token.
        headers: Sent with every request, for hooks of agents that look at them.
        answer_timeout: Seconds to wait for an answer; a turn may take the service's
            `maxWaitSeconds`.
        silence_timeout: Seconds without a sign of life after which a stream counts as broken.
        attempts: How many times in a row a broken stream is taken up again.
        transport: What makes the connections, for tests and proxies.
    """

    def __init__(
        self,
        base_url: str = LOCAL,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        answer_timeout: float = 660.0,
        silence_timeout: float = 60.0,
        attempts: int = 8,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        self._silence = httpx2.Timeout(10.0, read=silence_timeout)
        self._attempts = attempts
        self._http = httpx2.AsyncClient(
            base_url=base_url,
            headers=sent,
            timeout=httpx2.Timeout(10.0, read=answer_timeout),
            limits=httpx2.Limits(max_connections=None),
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, traceback)

    async def send_message(
        self,
        agent: str,
        message: str,
        *,
        session_id: str | None = None,
        message_id: str | None = None,
        when_busy: WhenBusy | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> Reply:
        """Sends a message and waits until its turn is over or needs a human.

        Without `session_id` a session is begun. The same `message_id` twice in one session is one
        message. `metadata` is shown to the agent's session hook. A turn that failed is an
        `ApiError` whose `body` has the events.
        """
        body = _message(message, session_id, message_id, when_busy, metadata)
        return await call(self._http, "POST", path("agents", agent, "messages"), reply, json=body)

    def stream_message(
        self,
        agent: str,
        message: str,
        *,
        session_id: str | None = None,
        message_id: str | None = None,
        when_busy: WhenBusy | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> AsyncGenerator[Event]:
        """Sends a message and yields the events of its turn, up to and with its last one.

        It is sent when the first event is asked for. A connection that breaks is made again, with
        waits that begin with what the service asks for; no event is missed and none comes twice.
        An answer that is no stream is yielded as one `error` event. Raises `UnreachableError` if
        no answer comes at first and `StreamLostError` if a broken stream cannot be taken up again.
        Hold it in `contextlib.aclosing` if you may leave it early.
        """
        body = _message(message, session_id, message_id or str(uuid4()), when_busy, metadata)
        url = path("agents", agent, "messages", "stream")

        def request(place: Place) -> httpx2.Request:
            if place.cursor is not None and place.session_id is not None:
                return self._events_request(agent, place, {"follow": "turn", "protocol": "v1"})
            if place.session_id is not None:
                body["sessionId"] = place.session_id
            return self._stream_request("POST", url, json=body)

        return Follower(
            self._http,
            Place(session_id),
            request=request,
            ends=lambda event: event.terminal,
            missing=LOST,
            attempts=self._attempts,
        ).events()

    def stream_events(
        self,
        agent: str,
        session_id: str,
        *,
        after: str | None = None,
        follow: Literal["turn", "session"] = "turn",
        protocol: str = "v1",
    ) -> AsyncGenerator[Event]:
        """Yields what follows the cursor `after` in a session, and then what happens.

        `after="0"` is the beginning; without it the open turn is given from its beginning, or what
        comes next. With `follow="turn"` it ends with the next end of a turn, or at once if no turn
        is open and nothing follows; with `follow="session"` it goes on. The protocol `log` has the
        events of the session log, pieces of text included. Connections are made again as in
        `stream_message`.
        """
        last = {"v1": {"done", "error"}, "log": {"turn/end"}}.get(protocol, set())
        query = {"follow": follow, "protocol": protocol}

        def request(place: Place) -> httpx2.Request:
            begin = {} if after is None or place.cursor is not None else {"after": after}
            return self._events_request(agent, place, {**query, **begin})

        return Follower(
            self._http,
            Place(session_id, after),
            request=request,
            ends=lambda event: follow == "turn" and event.type in last,
            attempts=self._attempts,
        ).events()

    @overload
    async def approve_call(
        self,
        approval_id: str,
        *,
        args: Mapping[str, object] | None = None,
        note: str | None = None,
        wait: Literal[True] = True,
    ) -> Reply: ...
    @overload
    async def approve_call(
        self,
        approval_id: str,
        *,
        args: Mapping[str, object] | None = None,
        note: str | None = None,
        wait: Literal[False],
    ) -> Accepted: ...
    async def approve_call(
        self,
        approval_id: str,
        *,
        args: Mapping[str, object] | None = None,
        note: str | None = None,
        wait: bool = True,
    ) -> Reply | Accepted:
        """Allows a call, with other arguments if `args` is given and the rule lets you.

        Waits as `send_message` does. With `wait=False` it returns when the decision is stored.
        """
        given = {"args": args, "note": note}
        return await self._decide("approvals", approval_id, "approve", given, wait=wait)

    @overload
    async def deny_call(
        self, approval_id: str, *, note: str | None = None, wait: Literal[True] = True
    ) -> Reply: ...
    @overload
    async def deny_call(
        self, approval_id: str, *, note: str | None = None, wait: Literal[False]
    ) -> Accepted: ...
    async def deny_call(
        self, approval_id: str, *, note: str | None = None, wait: bool = True
    ) -> Reply | Accepted:
        """Denies a call, which stops the turn. Waits as `approve_call` does."""
        return await self._decide("approvals", approval_id, "deny", {"note": note}, wait=wait)

    @overload
    async def answer_question(
        self, question_id: str, answer: str, *, wait: Literal[True] = True
    ) -> Reply: ...
    @overload
    async def answer_question(
        self, question_id: str, answer: str, *, wait: Literal[False]
    ) -> Accepted: ...
    async def answer_question(
        self, question_id: str, answer: str, *, wait: bool = True
    ) -> Reply | Accepted:
        """Answers a question of an agent. Waits as `approve_call` does."""
        return await self._decide("questions", question_id, "answer", {"answer": answer}, wait=wait)

    async def get_session_history(self, agent: str, session_id: str) -> SessionHistory:
        """Returns what was said in a session, also while a turn runs."""
        return await call(self._http, "GET", path("agents", agent, "sessions", session_id), history)

    async def list_sessions(
        self, agent: str, *, limit: int | None = None, cursor: str | None = None
    ) -> SessionPage:
        """Returns sessions of an agent, newest first; `cursor` is a page's `next_cursor`."""
        given = {"limit": limit, "cursor": cursor}
        params = {name: str(value) for name, value in given.items() if value is not None}
        url = path("agents", agent, "sessions")
        return await call(self._http, "GET", url, page, params=params)

    async def cancel(
        self, agent: str, session_id: str, *, keep_inbox: bool = False, wait: bool = True
    ) -> bool:
        """Cancels the turn of a session; returns whether there was one.

        Messages that wait behind it are dropped too, unless `keep_inbox` is set. With `wait=False`
        it returns before the turn has ended.
        """
        url = path("agents", agent, "sessions", session_id, "cancel")
        json = {"keepInbox": keep_inbox, "wait": wait}
        return await call(self._http, "POST", url, lambda body: bool(body["cancelled"]), json=json)

    async def _decide(
        self, kind: str, id: str, what: str, given: Mapping[str, object], *, wait: bool
    ) -> Reply | Accepted:
        json = {name: value for name, value in given.items() if value is not None}
        params = {} if wait else {"wait": "false"}
        read: Callable[[Mapping[str, Any]], Reply | Accepted] = reply if wait else accepted
        return await call(self._http, "POST", path(kind, id, what), read, json=json, params=params)

    def _stream_request(self, method: str, url: str, **more: Any) -> httpx2.Request:
        headers = {"Accept": "text/event-stream", **more.pop("headers", {})}
        return self._http.build_request(method, url, headers=headers, timeout=self._silence, **more)

    def _events_request(self, agent: str, place: Place, query: Mapping[str, str]) -> httpx2.Request:
        assert place.session_id is not None
        url = path("agents", agent, "sessions", place.session_id, "events")
        headers = {} if place.cursor is None else {"Last-Event-ID": place.cursor}
        return self._stream_request("GET", url, headers=headers, params=query)


def _message(
    message: str,
    session_id: str | None,
    message_id: str | None,
    when_busy: str | None,
    metadata: Mapping[str, object] | None,
) -> dict[str, object]:
    known = {
        "message": message,
        "sessionId": session_id,
        "messageId": message_id,
        "whenBusy": when_busy,
    }
    return {**(metadata or {}), **{k: v for k, v in known.items() if v is not None}}
