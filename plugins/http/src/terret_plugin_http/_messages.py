"""The routes that take messages."""

from functools import partial
from typing import Final
from uuid import uuid4

from starlette.types import ASGIApp

from terret_agents import Agent
from terret_llm import Message, create_user_message
from terret_sessions import SessionKey, Sessions, declare_event_type

from ._answers import PendingAnswer, TurnAnswer
from ._bodies import MessageBody
from ._calls import Call, Endpoint, ask_hook
from ._config import Role
from ._conversations import Conversation, is_busy
from ._errors import HttpError
from ._neighbours import Cursor
from ._sse import MessageSource, StreamSource
from ._turns import reached_by_message, session_headers, turn_of_message

METADATA: Final = "http/message"
"""The event of the log that keeps the further fields of a message."""

declare_event_type(METADATA, ignorable=True)


async def send_message(call: Call) -> ASGIApp:
    """Takes a message and answers with its turn."""
    conversation, message_id = await _take(call)
    look = partial(reached_by_message, conversation, message_id)
    turn = partial(turn_of_message, conversation, message_id)
    return await call.site.answer(conversation, look, turn)


async def stream_message(call: Call) -> ASGIApp:
    """Takes a message and streams its turn."""
    site = call.site
    conversation, message_id = await _take(call)
    key = conversation.key

    def open_source(after: Cursor) -> StreamSource:
        return site.source(conversation.session, key.raw_id, key.agent, after=after, turn_only=True)

    source = MessageSource(conversation, message_id, open_source)
    return site.stream(source, session_headers(key.raw_id))


async def _take(call: Call) -> tuple[Conversation, str]:
    """Puts the message into the inbox of its agent; returns when that is durable."""
    site, body = call.site, call.sent(MessageBody)
    key = await _key(call, body)
    site.admit(str(key))
    agent = await site.folders.open(key.agent, key.raw_id, tenant=key.tenant)
    conversation = site.conversations.of(agent)
    message_id = body.message_id
    place = None if message_id is None else conversation.place_of(message_id)
    site.admit(agent.id)  # once more, since others came while the agent was opened
    if message_id is None or place is None:
        message_id = _send(call, agent, body)
    elif place == "waiting":
        site.courier.wake(agent, message_id)
    await site.ctx[Sessions].flush(agent.session)
    return conversation, message_id


async def _key(call: Call, body: MessageBody) -> SessionKey:
    """Returns the key of the session that the body, the agent's hook or chance picks."""
    raw_id = body.session_id
    hook = call.site.definition(call.names["agent"]).session_id_for
    if raw_id is None and hook is not None:
        raw_id = await ask_hook(hook, body.model_dump(by_alias=True, exclude_none=True))
        if not raw_id:
            raise HttpError(400, "bad_session_id", "the agent finds no session in this body")
    return call.key(raw_id or str(uuid4()))


def _send(call: Call, agent: Agent, body: MessageBody) -> str:
    if body.when_busy == "reject" and is_busy(agent):
        raise HttpError(409, "session_busy", "a turn of the session runs")
    message = create_user_message(body.message)
    if body.message_id is not None:
        message = Message(body.message_id, message.role, message.content, message.source)
    if metadata := body.model_extra:
        agent.session.append(METADATA, {"messageId": message.id, "metadata": metadata})
    call.site.courier.send(agent, message, steer=body.when_busy == "steer")
    return message.id


_ERRORS: Final = (409, 413, 415, 429)

ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/agents/{agent}/messages",
        send_message,
        "Send a message and wait for its turn.",
        Role.CHAT,
        {200: (TurnAnswer,), 202: (PendingAnswer,)},
        body=MessageBody,
        errors=(*_ERRORS, 504),
    ),
    Endpoint(
        "POST",
        "/agents/{agent}/messages/stream",
        stream_message,
        "Send a message and stream its turn.",
        Role.CHAT,
        {200: "text/event-stream"},
        body=MessageBody,
        errors=_ERRORS,
    ),
)
