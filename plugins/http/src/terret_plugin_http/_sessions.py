"""The routes about one session: status, cancel, delete."""

from dataclasses import asdict
from typing import Final

from pydantic.alias_generators import to_camel
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from terret_agents import USER, Agent
from terret_sessions import (
    TOKEN_METER,
    SessionHeader,
    SessionNotFoundError,
    Sessions,
    last_turn,
)

from ._answers import Cancelled, SessionStatus
from ._bodies import CancelBody
from ._calls import Call, Endpoint
from ._config import Role
from ._conversations import Conversation, is_busy
from ._errors import HttpError
from ._site import Site
from ._stored import children_of, session_of, status_of
from ._turns import described, requested_at, session_headers


async def show_session(call: Call) -> ASGIApp:
    """Tells everything about a session."""
    site, key = call.site, call.key()
    session = await session_of(site, str(key))
    children = await children_of(site, session.id)  # from here on nothing changes meanwhile
    conversation = site.conversations.live(str(key)) or Conversation(session, key)
    told = site.loop_events.recall(session, session_id=key.raw_id, agent=key.agent)
    meter = site.ctx.get(TOKEN_METER)
    usage = asdict(meter.usage(session)) if meter is not None else {}
    body = {
        "sessionId": key.raw_id,
        "status": status_of(site, conversation),
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
        "children": [_child(site, each) for each in children],
        "cursor": str(told[-1].cursor) if told else "0",
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
    """Removes a session for good, also one that cannot be read any more."""
    site, id = call.site, str(call.key())
    agent = site.agents.get(id)
    if agent is None and site.persistence is None:
        raise SessionNotFoundError(id)
    if agent is not None:
        if is_busy(agent):
            raise HttpError(409, "session_busy", "a turn of the session runs")
        await agent.when_idle()
        await site.folders.release(agent)
    if site.persistence is not None:
        try:
            await site.persistence.delete(id)
        except SessionNotFoundError:
            if agent is None:
                raise
    return Response(status_code=204, headers=session_headers(call.names["session"]))


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


def _child(site: Site, header: SessionHeader) -> dict[str, object]:
    agent = site.agents.get(header.id)
    status = "running" if agent is not None and is_busy(agent) else "idle"
    return {"sessionId": header.id, "agent": header.agent_preset, "status": status}


_SESSION: Final = "/agents/{agent}/sessions/{session}"

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        _SESSION,
        show_session,
        "Tell everything about a session.",
        Role.CHAT,
        {200: (SessionStatus,)},
    ),
    Endpoint(
        "DELETE",
        _SESSION,
        delete_session,
        "Remove a session for good.",
        Role.CHAT,
        {204: ()},
        errors=(409,),
    ),
    Endpoint(
        "POST",
        f"{_SESSION}/cancel",
        cancel_session,
        "Stop the turn that runs.",
        Role.CHAT,
        {200: (Cancelled,)},
        body=CancelBody,
        errors=(409, 413, 415),
    ),
)
