"""Waiting for a turn, and the family of answers that say how far it is."""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote

import anyio
from starlette.responses import JSONResponse, Response

from terret_agents import timestamp
from terret_context import Context
from terret_sessions import Aborted, Blocked, Interrupted, TurnEndReason

from ._conversations import Conversation, Item, Turn
from ._errors import HttpError, error_id
from ._gate import SESSION_ID
from ._links import Links
from ._neighbours import LoopEvents, Output

FoundT = TypeVar("FoundT")

UNSENT = "the message was discarded before a turn took it"


@dataclass(frozen=True, slots=True)
class Reached:
    """What somebody waited for: the end of a turn, an open item, or the end of a message.

    Without turn the message is still in the inbox, or was never taken out of it.
    """

    turn: Turn | None = None
    item: Item | None = None


def turn_of_message(conversation: Conversation, message_id: str) -> Turn | None:
    """Returns the turn that took a message."""
    place = conversation.place_of(message_id)
    return conversation.turns[place] if isinstance(place, int) else None


def is_unsent(conversation: Conversation, message_id: str) -> bool:
    """Tells whether no turn took a message and none will."""
    place = conversation.place_of(message_id)
    return place == "dropped" or (place == "waiting" and conversation.gone)


def reached_by_message(conversation: Conversation, message_id: str) -> Reached | None:
    """Returns what the turn of a message has come to; `None` while there is nothing to tell."""
    turn = turn_of_message(conversation, message_id)
    if turn is not None:
        return reached_by_turn(conversation, turn)
    if is_unsent(conversation, message_id):
        return Reached()
    return Reached(item=conversation.open_item) if conversation.open_item else None


def reached_by_turn(conversation: Conversation, turn: Turn) -> Reached | None:
    """Returns what a turn has come to; its end comes before an item."""
    if turn.last is not None or conversation.gone:
        return Reached(turn)
    return Reached(turn, conversation.open_item) if conversation.open_item else None


class Turns:
    """Answers requests with what came of a turn."""

    def __init__(self, ctx: Context, loop_events: LoopEvents, links: Links) -> None:
        self._ctx = ctx
        self._loop_events = loop_events
        self._links = links

    async def wait(
        self, conversation: Conversation, look: Callable[[], FoundT | None], seconds: float
    ) -> FoundT | None:
        """Waits until `look` finds something in the conversation, at most so long."""
        with anyio.move_on_after(seconds):
            while (found := look()) is None:
                await conversation.changed()
            return found
        return None

    def answer(self, conversation: Conversation, reached: Reached) -> Response:
        """Returns 200 for a turn that came to its end, 202 if a person is needed.

        Raises `HttpError` for a turn that failed, and for a message that never entered one.
        """
        turn, item = reached.turn, reached.item
        if item is not None:
            return self._pending(conversation, turn, item)
        if turn is None:
            raise self._unsent(conversation)
        outputs = self.outputs(conversation, turn)
        last = outputs[-1].event if outputs else {}
        if last.get("type") != "done":
            raise self._failed(conversation, turn, outputs)
        body = {"text": last["text"], **self._so_far(conversation, outputs)}
        if "stopReason" in last:
            body["stopReason"] = last["stopReason"]
        return respond(conversation, 200, body)

    def still_running(self, conversation: Conversation, turn: Turn | None) -> HttpError:
        """Returns the error for somebody who has waited too long; the turn goes on."""
        outputs = self.outputs(conversation, turn)
        url = self._links.session(conversation.key)
        fields = {**self._so_far(conversation, outputs), "statusUrl": url}
        text = "the turn goes on: look at its status or its events"
        return HttpError(504, "still_running", text, fields=fields)

    def outputs(self, conversation: Conversation, turn: Turn | None) -> Sequence[Output]:
        """Returns the events of a turn so far."""
        if turn is None:
            return ()
        key = conversation.key
        outputs = self._loop_events.recall(
            conversation.session, session_id=key.raw_id, agent=key.agent, after=(turn.first, -1)
        )
        if turn.last is None or turn.number == conversation.session.last_turn:
            return outputs
        return tuple(output for output in outputs if output.cursor[0] <= turn.last)

    def _pending(self, conversation: Conversation, turn: Turn | None, item: Item) -> Response:
        outputs = self.outputs(conversation, turn)
        body = {
            "pending": True,
            "type": item.kind,
            **described(item),
            **self._links.decisions(item),
            **self._so_far(conversation, outputs),
            "statusUrl": self._links.session(conversation.key),
        }
        if turn is None:
            body["queued"] = True
        return respond(conversation, 202, body)

    def _failed(
        self, conversation: Conversation, turn: Turn, outputs: Sequence[Output]
    ) -> HttpError:
        status, code = _status_of(turn.reason)
        text = str(outputs[-1].event.get("error")) if outputs else "the turn did not end"
        fields = self._so_far(conversation, outputs)
        if status == 500:
            fields["errorId"] = id = error_id()
            session, number = conversation.session.id, turn.number
            self._ctx.logger.error(
                "turn failed", error_id=id, session=session, turn=number, error=text
            )
        return HttpError(status, code, text, fields=fields)

    def _unsent(self, conversation: Conversation) -> HttpError:
        status, code = (503, "draining") if conversation.gone else (409, "aborted")
        fields = {"events": unsent_events(conversation.key.raw_id)}
        return HttpError(status, code, UNSENT, fields=fields)

    def _so_far(self, conversation: Conversation, outputs: Sequence[Output]) -> dict[str, object]:
        cursor = outputs[-1].cursor if outputs else None
        return {
            "sessionId": conversation.key.raw_id,
            "events": [output.event for output in outputs],
            "cursor": "0" if cursor is None else str(cursor),
        }


def unsent_events(raw_id: str) -> list[dict[str, object]]:
    """Returns the events of a message that never entered a turn: the only ones not in the log."""
    return [{"type": "session", "sessionId": raw_id}, {"type": "error", "error": UNSENT}]


def described(item: Item) -> dict[str, object]:
    """Returns what people are told of an item."""
    data = item.asked.data
    told: dict[str, object] = {"id": item.id}
    if item.kind == "approval":
        told |= {"tool": data.get("toolName"), "args": data.get("args", {})}
        told |= {"scope": data.get("scope", {}), "reason": data.get("reason") or ""}
    else:
        told |= {"question": data.get("question"), **_present(data, "options")}
    return {**told, **_present(data, "expiresAt")}


def requested_at(item: Item) -> str:
    """Returns when an item was asked."""
    return timestamp(datetime.fromtimestamp(item.asked.time / 1000, UTC))


def session_headers(raw_id: str) -> Mapping[str, str]:
    """Returns the headers of answers about a session."""
    readable = quote(raw_id, safe=string.punctuation)
    return {SESSION_ID: readable, "Cache-Control": "no-store"}


def respond(conversation: Conversation, status: int, body: Mapping[str, object]) -> Response:
    """Answers about a conversation."""
    return JSONResponse(body, status, session_headers(conversation.key.raw_id))


def _status_of(reason: TurnEndReason | None) -> tuple[int, str]:
    match reason:
        case Blocked():
            return 403, "blocked"
        case Aborted():
            return 409, "aborted"
        case Interrupted():
            return 503, "interrupted"
        case None:
            return 503, "draining"
    return 500, "turn_failed"


def _present(data: Mapping[str, object], key: str) -> dict[str, object]:
    return {key: data[key]} if data.get(key) is not None else {}
