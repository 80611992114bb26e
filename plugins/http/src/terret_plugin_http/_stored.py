"""Sessions that may be live, stored, both or neither."""

from collections.abc import AsyncIterator
from typing import Final, Literal

from terret_sessions import (
    Session,
    SessionHeader,
    SessionKey,
    SessionNotFoundError,
    Sessions,
)

from ._conversations import Conversation, is_busy
from ._site import Site

_SUBAGENT: Final = "subagent"


async def session_of(site: Site, session_id: str) -> Session:
    """Returns the live session, or one made of what is stored.

    Nothing is changed and nothing is locked. Raises `SessionNotFoundError`.
    """
    live = site.ctx[Sessions].get(session_id)
    if live is not None:
        return live
    if site.persistence is None:
        raise SessionNotFoundError(session_id)
    log = await site.persistence.inspect(session_id)
    return Session(header=log.header, seed=log.events)


async def live_conversation(site: Site, key: SessionKey) -> Conversation:
    """Returns a conversation with its agent, which comes back from its log if need be.

    Raises `SessionNotFoundError` for one that there is not: it would be made otherwise.
    """
    found = site.conversations.live(str(key))
    if found is None:
        await session_of(site, str(key))
        agent = await site.folders.open(key.agent, key.raw_id, tenant=key.tenant)
        found = site.conversations.of(agent)
    return found


def status_of(site: Site, conversation: Conversation) -> Literal["idle", "running", "waiting"]:
    """Returns what a session does: nothing, a turn, or a turn that waits for a person."""
    agent = site.agents.get(conversation.session.id)
    if agent is None or not is_busy(agent):
        return "idle"
    return "waiting" if conversation.items else "running"


async def headers(site: Site) -> AsyncIterator[SessionHeader]:
    """Gives the headers of all sessions, live and stored."""
    live = site.ctx[Sessions].list()
    for session in live:
        yield session.header
    known = {session.id for session in live}
    if site.persistence is not None:
        for header in await site.persistence.list():
            if header.id not in known:
                yield header


async def children_of(site: Site, session_id: str) -> tuple[SessionHeader, ...]:
    """Returns the sessions of the subagents that a session called."""
    return tuple([each async for each in headers(site) if _is_child(each, session_id)])


async def is_below(site: Site, child_id: str, session_id: str) -> bool:
    """Tells whether a session is one of a subagent below another one, however deep."""
    parents = {
        each.id: each.parent_session async for each in headers(site) if each.origin == _SUBAGENT
    }
    parent = parents.get(child_id)
    while parent is not None and parent != session_id:
        parent = parents.get(parent)
    return parent is not None


def _is_child(header: SessionHeader, session_id: str) -> bool:
    return header.origin == _SUBAGENT and header.parent_session == session_id
