"""The route that lists sessions."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from terret_agents import timestamp
from terret_sessions import SessionHeader, SessionKey

from ._answers import SessionList
from ._bodies import PageQuery
from ._calls import Call, Endpoint
from ._config import Role
from ._errors import HttpError
from ._stored import status_of


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
    query = call.queried(PageQuery)
    rows = sorted(await _rows(call), key=lambda row: row.place)
    if query.cursor is not None:
        place = _place(query.cursor)
        rows = [row for row in rows if row.place > place]
    body: dict[str, object] = {"sessions": [row.to_wire() for row in rows[: query.limit]]}
    if len(rows) > query.limit:
        body["nextCursor"] = _cursor(rows[query.limit - 1].place)
    return JSONResponse(body, headers={"Cache-Control": "no-store"})


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
                status_of(site, conversation),
                session.header.created_at,
                session.events[-1].time,
                session.last_turn,
                len(conversation.items),
            )
    return tuple(rows.values())


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


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/agents/{agent}/sessions",
        list_sessions,
        "List the sessions of an agent, newest first.",
        Role.CHAT,
        {200: (SessionList,)},
        query=PageQuery,
    ),
)
