"""What the logs of live agents say about messages, turns and people who are needed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import anyio

from terret_agents import AGENT_DISPOSED, Agent, AgentDisposed, Agents
from terret_context import Context
from terret_sessions import (
    EVENT,
    InboxSpliced,
    Session,
    SessionEvent,
    SessionKey,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    without_chunks,
)

Place: TypeAlias = int | Literal["waiting", "dropped"]
"""Where a message is: in the inbox, discarded, or in the turn of that number."""

_ASKED: Final = {"approval/asked": "approval", "question/asked": "question"}
_ENDED: Final = frozenset(("approval/decided", "question/answered"))
_WATCHED: Final = frozenset(("agent/inbox/spliced", "turn/start", "turn/end", *_ASKED, *_ENDED))


@dataclass(slots=True)
class Turn:
    """A turn: the seqs of its first and, once it has ended, of its last event, and how it did."""

    number: int
    first: int
    last: int | None = None
    reason: TurnEndReason | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a person has to decide or answer; `asked` is its event of the log."""

    id: str
    kind: str
    asked: SessionEvent


class Conversation:
    """What the log of a session says; it follows a live one."""

    def __init__(self, session: Session, key: SessionKey) -> None:
        self.session = session
        self.key = key
        self.turns: dict[int, Turn] = {}
        self.items: dict[str, Item] = {}
        """The open items, in the order in which they were asked."""
        self.gone = False
        """Whether nothing will happen any more: the service has ended, or the agent."""
        self._places: dict[str, Place] = {}
        self._pending: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self._changed = anyio.Event()
        self._own = session.header.seed_length or 0  # the inbox of a fork's parent is not its own
        for event in without_chunks(session.events):
            if event.type in _WATCHED:
                self.take(event)

    def place_of(self, message_id: str) -> Place | None:
        """Returns where a message is, `None` for one that this session never got."""
        return self._places.get(message_id)

    @property
    def open_item(self) -> Item | None:
        """The item that is open, if there is one."""
        return next(iter(self.items.values()), None)

    @property
    def open_turn(self) -> Turn | None:
        """The turn that runs."""
        number = self.session.open_turn
        return None if number is None else self.turns.get(number)

    async def changed(self) -> None:
        """Returns at the next change."""
        await self._changed.wait()

    def end(self) -> None:
        """Tells whoever waits that nothing will happen any more."""
        self.gone = True
        self._tell()

    def take(self, event: SessionEvent) -> None:
        """Takes the next event of the kinds that matter here."""
        match event.view:
            case TurnStart(turn=number):
                self.turns[number] = Turn(number, event.seq)
            case TurnEnd(turn=number, reason=reason):
                turn = self.turns.setdefault(number, Turn(number, event.seq))
                turn.last, turn.reason = event.seq, reason
                self.items.clear()
            case InboxSpliced() as change:
                if event.seq >= self._own:
                    self._splice(change)
            case _:
                self._ask(event)
        self._tell()

    def _splice(self, change: InboxSpliced) -> None:
        pending = self._pending[change.target]
        end = change.start + change.removed_count
        place: Place = "dropped"
        if change.outcome is None and self.turns:
            place = next(reversed(self.turns))
        for id in pending[change.start : end]:
            self._places[id] = place
        pending[change.start : end] = [message.id for message in change.inserted]
        for message in change.inserted:
            self._places[message.id] = "waiting"

    def _ask(self, event: SessionEvent) -> None:
        id = str(event.data.get("id"))
        kind = _ASKED.get(event.type)
        if kind is not None:
            self.items[id] = Item(id, kind, event)
        else:
            self.items.pop(id, None)

    def _tell(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def is_busy(agent: Agent) -> bool:
    """Tells whether a turn runs or is about to begin; its last flush may still go on without."""
    waits = agent.status == "running" and agent.inbox.has_pending
    return waits or agent.session.open_turn is not None


class Conversations:
    """The conversations of the live agents whose sessions have a key."""

    def __init__(self, ctx: Context) -> None:
        self._agents = ctx[Agents]
        self._known: dict[Session, Conversation] = {}
        ctx.on(EVENT, self._take)
        ctx.on(AGENT_DISPOSED, self._forget)

    def of(self, agent: Agent) -> Conversation:
        """Returns the conversation of a live agent. Raises `ValueError` if it has no key."""
        found = self._known.get(agent.session)
        if found is None:
            key = SessionKey.parse(agent.id)
            found = self._known[agent.session] = Conversation(agent.session, key)
        return found

    def live(self, session_id: str) -> Conversation | None:
        """Returns the conversation of a live session."""
        agent = self._agents.get(session_id)
        return None if agent is None else self.of(agent)

    def all(self) -> Iterator[Conversation]:
        """Gives the live conversations."""
        for agent in self._agents.roots():
            try:
                yield self.of(agent)
            except ValueError:  # an agent that is not of the project
                continue

    def of_agent(self, tenant: str, name: str) -> Iterator[Conversation]:
        """Gives the live conversations of a tenant with an agent."""
        for each in self.all():
            if (each.key.tenant, each.key.agent) == (tenant, name):
                yield each

    def end(self) -> None:
        """Ends all of them."""
        for conversation in self._known.values():
            conversation.end()

    def _take(self, session: Session, event: SessionEvent) -> None:
        if event.type in _WATCHED and (known := self._known.get(session)) is not None:
            known.take(event)

    def _forget(self, disposed: AgentDisposed) -> None:
        known = self._known.pop(disposed.agent.session, None)
        if known is not None:
            known.end()
