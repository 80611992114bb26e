"""The routes about sessions: list, status, cancel, delete."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic.alias_generators import to_camel
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from terret_agents import USER, Agent, timestamp
from terret_sessions import (
    TOKEN_METER,
    SessionHeader,
    SessionKey,
    SessionNotFoundError,
    Sessions,
    last_turn,
)

from ._answers import Cancelled, SessionList, SessionStatus
from ._bodies import CancelBody, PageQuery
from ._calls import Call, Endpoint
from ._config import Role
from ._conversations import Conversation, is_busy
from ._errors import HttpError
from ._site import Site
from ._stored import children_of, session_of
from ._turns import described, requested_at, session_headers


@dataclass(frozen=True, slots=True)
class _Row:
    """A session of a list."""

    raw_id: str
    status: str
    created_at: int
    updated_at: int
    turns: int
    pending: int

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands: newest first."""
        return -self.updated_at, self.raw_id

    def to_wire(self) -> dict[str, object]:
        return {
            "sessionId": self.raw_id,
            "status": self.status,
            "createdAt": _moment(self.created_at),
            "updatedAt": _moment(self.updated_at),
            "turns": self.turns,
            "pending": self.pending,
        }


async def list_sessions(call: Call) -> ASGIApp:
    """Lists the sessions of an agent, newest first."""
    call.site.definition(call.names["agent"])
    query = call.queried(PageQuery)
    rows = sorted(await _rows(call), key=lambda row: row.place)
    if query.cursor is not None:
        place = _place(query.cursor)
        rows = [row for row in rows if row.place > place]
    body: dict[str, object] = {"sessions": [row.to_wire() for row in rows[: query.limit]]}
    if len(rows) > query.limit:
        body["nextCursor"] = _cursor(rows[query.limit - 1].place)
    return JSONResponse(body, headers={"Cache-Control": "no-store"})


async def show_session(call: Call) -> ASGIApp:
    """Tells everything about a session."""
    site, key = call.site, call.key()
    session = await session_of(site, str(key))
    conversation = site.conversations.live(str(key)) or Conversation(session, key)
    outputs = site.loop_events.project(
        session.events,
        session_id=key.raw_id,
        agent=key.agent,
        copied=session.header.seed_length or 0,
    )
    cursor = "0"
    for output in outputs:
        cursor = str(output.cursor)
    meter = site.ctx.get(TOKEN_METER)
    usage = asdict(meter.usage(session)) if meter is not None else {}
    body = {
        "sessionId": key.raw_id,
        "status": _status(site, conversation),
        "history": [message.to_wire() for message in session.derive_messages()],
        "pending": [
            {
                "type": item.kind,
                **described(item),
                **site.links.decisions(item),
                "requestedAt": requested_at(item),
            }
            for item in conversation.items.values()
        ],
        "children": [_child(site, each) for each in await children_of(site, session.id)],
        "cursor": cursor,
        "usage": {to_camel(name): count for name, count in usage.items()},
    }
    last = last_turn(reversed(session.events))
    if last is not None:
        body["lastTurn"] = {"turn": last.number, **({"end": last.end.kind} if last.end else {})}
    return JSONResponse(body, headers=session_headers(key.raw_id))


async def cancel_session(call: Call) -> ASGIApp:
    """Stops the turn that runs."""
    site, key, body = call.site, call.key(), call.sent(CancelBody)
    agent = site.agents.get(str(key))
    if agent is None:
        await session_of(site, str(key))
    cancelled = agent is not None and is_busy(agent)
    if agent is not None and cancelled:
        await _cancel(site, agent, body)
    answer = {"cancelled": cancelled, "sessionId": key.raw_id}
    return JSONResponse(answer, headers=session_headers(key.raw_id))


async def delete_session(call: Call) -> ASGIApp:
    """Removes a session for good."""
    site, key = call.site, call.key()
    session = await session_of(site, str(key))
    agent = site.agents.get(str(key))
    if agent is not None:
        if is_busy(agent):
            raise HttpError(409, "session_busy", "a turn of the session runs")
        await agent.when_idle()
        await site.folders.release(agent)
    if site.persistence is not None:
        try:
            await site.persistence.delete(session.id)
        except SessionNotFoundError:
            if agent is None:
                raise
    return Response(status_code=204, headers=session_headers(key.raw_id))


async def _cancel(site: Site, agent: Agent, body: CancelBody) -> None:
    conversation = site.conversations.of(agent)
    turn = conversation.open_turn
    if body.keep_inbox:
        site.courier.let_wait(agent)
    agent.cancel(USER, keep_inbox=body.keep_inbox)
    if not body.wait:
        return
    if turn is None:
        await agent.when_idle()
    else:
        while turn.last is None and not conversation.gone:
            await conversation.changed()
    if agent.session.live:
        await site.ctx[Sessions].flush(agent.session)


async def _rows(call: Call) -> Sequence[_Row]:
    site, agent = call.site, call.names["agent"]
    rows: dict[str, _Row] = {}
    for snapshot in await site.persistence.list_snapshots() if site.persistence else ():
        key = _key(snapshot.header)
        if key is not None and call.owns(key):
            header, last = snapshot.header, snapshot.last_turn
            turns = 0 if last is None else last.number
            row = _Row(key.raw_id, "idle", header.created_at, snapshot.updated_at, turns, 0)
            rows[header.id] = row
    for conversation in site.conversations.of_agent(call.tenant, agent):
        session = conversation.session
        if session.events:
            rows[session.id] = _Row(
                conversation.key.raw_id,
                _status(site, conversation),
                session.header.created_at,
                session.events[-1].time,
                session.last_turn,
                len(conversation.items),
            )
    return tuple(rows.values())


def _status(site: Site, conversation: Conversation) -> Literal["idle", "running", "waiting"]:
    agent = site.agents.get(conversation.session.id)
    if agent is None or not is_busy(agent):
        return "idle"
    return "waiting" if conversation.items else "running"


def _child(site: Site, header: SessionHeader) -> dict[str, object]:
    agent = site.agents.get(header.id)
    status = "running" if agent is not None and is_busy(agent) else "idle"
    return {"sessionId": header.id, "agent": header.agent_preset, "status": status}


def _key(header: SessionHeader) -> SessionKey | None:
    try:
        return SessionKey.parse(header.id)
    except ValueError:  # a session of an agent that is not of the project
        return None


def _cursor(place: tuple[int, str]) -> str:
    return urlsafe_b64encode(json.dumps(place).encode()).decode()


def _place(cursor: str) -> tuple[int, str]:
    try:
        updated_at, raw_id = json.loads(urlsafe_b64decode(cursor))
        if type(updated_at) is int and type(raw_id) is str:
            return updated_at, raw_id
    except (ValueError, TypeError):
        pass
    raise HttpError(400, "bad_cursor", "take the cursor from `nextCursor` of the last page")


def _moment(milliseconds: int) -> str:
    return timestamp(datetime.fromtimestamp(milliseconds / 1000, UTC))


_ERRORS: Final = (400, 401, 403, 404, 500, 503)

ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/agents/{agent}/sessions",
        handler=list_sessions,
        role=Role.CHAT,
        summary="List the sessions of an agent, newest first.",
        query=PageQuery,
        answers={200: (SessionList,)},
        errors=_ERRORS,
    ),
    Endpoint(
        method="GET",
        path="/agents/{agent}/sessions/{session}",
        handler=show_session,
        role=Role.CHAT,
        summary="Tell everything about a session.",
        answers={200: (SessionStatus,)},
        errors=_ERRORS,
    ),
    Endpoint(
        method="DELETE",
        path="/agents/{agent}/sessions/{session}",
        handler=delete_session,
        role=Role.CHAT,
        summary="Remove a session for good.",
        answers={204: ()},
        errors=(*_ERRORS, 409),
    ),
    Endpoint(
        method="POST",
        path="/agents/{agent}/sessions/{session}/cancel",
        handler=cancel_session,
        role=Role.CHAT,
        summary="Stop the turn that runs.",
        body=CancelBody,
        answers={200: (Cancelled,)},
        errors=(*_ERRORS, 409, 413, 415),
    ),
)
