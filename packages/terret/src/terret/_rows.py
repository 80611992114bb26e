"""A turn as JSON lines: the events of protocol v1, as clients of the service see them."""

from pydantic_core import to_json

from terret_agents import Agent
from terret_sessions import SessionEvent, TurnEnd

from ._agents import raw_id
from ._output import Output
from ._screen import say_end, say_unsent
from ._services import LoopEvents, Projection


class Rows:
    """Prints the events of a turn, each as one line and at once."""

    def __init__(self, events: LoopEvents, agent: Agent, out: Output) -> None:
        self._events = events
        self._agent = agent
        self._out = out
        self._fold: Projection | None = None

    def show(self, event: SessionEvent) -> None:
        """Prints what one event of the log stands for."""
        if self._fold is None:
            self._fold = self._folded(event.seq)
        for row in self._fold.feed(event):
            self._write(row)
        if isinstance(event.view, TurnEnd):
            say_end(event.view.reason)

    def show_unsent(self) -> None:
        """Prints the turn of a message that was taken back before it had one."""
        self._write({"type": "session", "sessionId": raw_id(self._agent)})
        self._write({"type": "error", "error": "aborted: user"})
        say_unsent()

    def _folded(self, seq: int) -> Projection:
        """Returns the fold of everything before an event."""
        session = self._agent.session
        copied = session.header.seed_length or 0
        fold = self._events.projection(
            session_id=raw_id(self._agent), agent=self._agent.name, copied=copied
        )
        for event in session.events[:seq]:
            fold.feed(event)
        return fold

    def _write(self, row: object) -> None:
        self._out.write(to_json(row).decode() + "\n")
