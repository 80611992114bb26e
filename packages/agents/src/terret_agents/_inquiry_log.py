"""Where items that people answer stand in session logs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex

from terret_context import Context
from terret_sessions import SESSION_PERSISTENCE, Session, SessionEvent, Sessions, TurnStart

from ._agent import Agent
from ._errors import InquiryClosedError, UnknownInquiryError
from ._service import Agents


@dataclass(frozen=True, slots=True)
class InquiryLog:
    """Reads and writes one kind of items, such as approvals.

    An item of an agent below another one stands in its own log and, with its `origin`, in that of
    its root, so that the root's log alone tells what is open.

    Attributes:
        kind: what people call such an item.
        asked: the event type of an item that is asked; `id` names it.
        ended: the event type of its end, exactly one for each item; `outcome` says how it ended.
    """

    kind: str
    asked: str
    ended: str

    def new_id(self, root: Agent) -> str:
        """Returns a fresh id, in which the session of the root agent can be recognised."""
        return f"{_tag(root.id)}-{token_hex(6)}"

    def sessions(self, agents: Agents, agent: Agent) -> tuple[Session, ...]:
        """Returns the logs in which items of an agent stand, its own first."""
        root = agents.root_of(agent)
        return (agent.session,) if root is agent else (agent.session, root.session)

    def log_asked(
        self, agents: Agents, agent: Agent, data: Mapping[str, object], *, inside: str | None = None
    ) -> None:
        """Logs an item with its place; `inside` is the call in whose body another call asks."""
        call_id = inside or data.get("callId")
        origin = {"sessionId": agent.id, "agent": agent.name, "callId": call_id}
        for session in self.sessions(agents, agent):
            turn = session.open_turn or session.last_turn
            row = {**data, "turn": turn, "step": session.open_step or 0}
            if inside is not None or session is not agent.session:
                row["origin"] = origin
            session.append(self.asked, row)

    def log_ended(self, agents: Agents, agent: Agent, data: Mapping[str, object]) -> None:
        """Logs the end of an item."""
        for session in self.sessions(agents, agent):
            session.append(self.ended, dict(data))

    def left_open(self, events: Sequence[SessionEvent]) -> tuple[str, ...]:
        """Returns the items of the last turn that have no end; older ones always have one."""
        asked: list[str] = []
        ended = set()
        for event in _last_turn(events):
            id = event.data.get("id") if event.type in (self.asked, self.ended) else None
            if not isinstance(id, str):
                continue  # nothing of this kind, or a row that names no item
            if event.type == self.ended:
                ended.add(id)
            else:
                asked.append(id)
        return tuple(id for id in reversed(asked) if id not in ended)

    async def closed(self, ctx: Context, id: str) -> InquiryClosedError:
        """Returns how and when an item ended that is not open; one lost in a crash is `cancelled`.

        Raises `UnknownInquiryError` if no live or stored log has it.
        """
        for session in ctx[Sessions].list():
            if id.startswith(_tag(session.id)):
                found = self._end(session.events, id)
                if found is not None:
                    return InquiryClosedError(id, *found, session.id)
        persistence = ctx.get(SESSION_PERSISTENCE)
        for header in await persistence.list() if persistence else ():
            if id.startswith(_tag(header.id)) and persistence is not None:
                found = self._end((await persistence.inspect(header.id)).events, id)
                if found is not None:
                    return InquiryClosedError(id, *found, header.id)
        raise UnknownInquiryError(self.kind, id)

    def _end(self, events: Sequence[SessionEvent], id: str) -> tuple[str, datetime] | None:
        for event in reversed(events):
            if event.type == self.ended and event.data.get("id") == id:
                return str(event.data.get("outcome")), _moment(event)
            if event.type == self.asked and event.data.get("id") == id:
                return "cancelled", _moment(events[-1])
        return None


def _last_turn(events: Sequence[SessionEvent]) -> Iterator[SessionEvent]:
    for event in reversed(events):
        yield event
        if isinstance(event.view, TurnStart):
            return


def _moment(event: SessionEvent) -> datetime:
    return datetime.fromtimestamp(event.time / 1000, UTC)


def _tag(session_id: str) -> str:
    return sha256(session_id.encode()).hexdigest()[:10]
