"""Events of a turn, read tolerantly: types and fields that nobody here knows are kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ._errors import MalformedAnswerError
from ._sse import MAX_FRAME_BYTES, SseDecoder, SseFrame

TERMINALS: Final = frozenset({"done", "error"})


@dataclass(frozen=True, slots=True)
class Event:
    """One event as the service sent it.

    `data` is the whole JSON object, whatever else than the documented fields it has. `cursor` is
    the place of the event in its session, if it has one and came by a stream.
    """

    type: str
    data: Mapping[str, Any]
    cursor: str | None = None

    @property
    def terminal(self) -> bool:
        """Whether the turn is over with it."""
        return self.type in TERMINALS

    @classmethod
    def parse(cls, text: str | bytes, *, cursor: str | None = None, name: str = "") -> "Event":
        """Reads the JSON of one event, which a line of `terret run --json` is as well.

        `name` stands in for a missing `type`. Raises `MalformedAnswerError` for what is no JSON
        object with a type.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise MalformedAnswerError(f"an event that is no JSON: {error}") from error
        return cls.of(data, cursor=cursor, name=name)

    @classmethod
    def of(cls, data: object, *, cursor: str | None = None, name: str = "") -> "Event":
        """Takes an object that was JSON. Raises `MalformedAnswerError` as `parse` does."""
        if not isinstance(data, Mapping):
            raise MalformedAnswerError(
                f"an event that is a JSON {type(data).__name__}, not an object"
            )
        kind = data.get("type", name)
        if not isinstance(kind, str) or not kind:
            raise MalformedAnswerError("an event without a type")
        return cls(kind, data, cursor)


class EventDecoder:
    """Turns the bytes of an event stream into events, however they are cut.

    `last_id` is the id of the last complete frame, and `retry` the wait in seconds that the server
    asks for, once it did. A decoder is for one connection.
    """

    def __init__(self, *, max_event_bytes: int = MAX_FRAME_BYTES) -> None:
        self._frames = SseDecoder(max_frame_bytes=max_event_bytes)

    @property
    def last_id(self) -> str | None:
        return self._frames.last_id

    @property
    def retry(self) -> float | None:
        return self._frames.retry

    def feed(self, piece: bytes) -> list[Event]:
        """Takes the next bytes and returns the events they complete.

        Raises `MalformedAnswerError`.
        """
        return [_event(frame) for frame in self._frames.feed(piece)]


def _event(frame: SseFrame) -> Event:
    return Event.parse(frame.data, cursor=frame.id, name=frame.name)
