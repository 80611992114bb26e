"""The session log itself as a protocol: each of its events as it is stored."""

from collections.abc import Mapping

from pydantic_core import from_json

from terret_sessions import SessionEvent, event_row


class LogProjection:
    """Gives every event of the log, chunks included, in the form of its row."""

    def __init__(self, session_id: str, agent: str, *, copied: int = 0) -> None:
        self.session_id = session_id

    def feed(self, event: SessionEvent) -> list[Mapping[str, object]]:
        return [from_json(event_row(event))]
