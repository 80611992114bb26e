"""The routes that stream the events of a session."""

from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp

from terret_sessions import Session, SessionNotFoundError

from ._bodies import EventsQuery
from ._calls import Answers, Call, Endpoint
from ._config import Role
from ._errors import HttpError
from ._neighbours import Cursor
from ._stored import is_below, live_conversation, session_of
from ._turns import session_headers


async def stream_session(call: Call) -> ASGIApp:
    """Streams the events of a session from a cursor on."""
    conversation = await live_conversation(call.site, call.key())
    key = conversation.key
    return _stream(call, conversation.session, key.raw_id, key.agent)


async def stream_child(call: Call) -> ASGIApp:
    """Streams the events of a subagent's session."""
    child_id = call.names["child"]
    if not await is_below(call.site, child_id, str(call.key())):
        raise SessionNotFoundError(child_id)
    session = await session_of(call.site, child_id)
    return _stream(call, session, child_id, session.header.agent_preset or "")


def _stream(call: Call, session: Session, session_id: str, agent: str) -> ASGIApp:
    query, site = call.queried(EventsQuery), call.site
    protocol, turn_only = query.protocol, query.follow == "turn"
    if protocol not in site.loop_events.protocols:
        known = ", ".join(site.loop_events.protocols)
        raise HttpError(400, "bad_query", f"there is no such protocol (known: {known})")
    after = _cursor(call, query, len(session.events))
    headers = session_headers(session_id)
    if turn_only and session.open_turn is None:
        following = after is not None and any(
            site.loop_events.project(
                session.events,
                session_id=session_id,
                agent=agent,
                protocol=protocol,
                copied=session.header.seed_length or 0,
                after=after,
            )
        )
        if not following:
            return Response(status_code=204, headers=headers)
    source = site.source(
        session, session_id, agent, protocol=protocol, after=after, turn_only=turn_only
    )
    return site.stream(source, headers)


def _cursor(call: Call, query: EventsQuery, length: int) -> Cursor | None:
    """Returns the place from which on events are wanted. Raises `HttpError`."""
    text = call.request.headers.get("last-event-id")
    given = query.after if text is None else text
    if given is None:
        return None
    if query.protocol == "log" and given.isdecimal() and (text is not None or given != "0"):
        given = f"{given}.0"  # the ids of that protocol have no number
    try:
        return call.site.loop_events.cursor(given, length=length)
    except ValueError as error:
        raise HttpError(400, "bad_cursor", str(error)) from None


_ANSWERS: Final[Answers] = {200: "text/event-stream", 204: ()}

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/agents/{agent}/sessions/{session}/events",
        stream_session,
        "Stream the events of a session from a cursor on.",
        Role.CHAT,
        _ANSWERS,
        query=EventsQuery,
        errors=(409,),
    ),
    Endpoint(
        "GET",
        "/agents/{agent}/sessions/{session}/children/{child}/events",
        stream_child,
        "Stream the events of a session below one.",
        Role.CHAT,
        _ANSWERS,
        query=EventsQuery,
    ),
)
