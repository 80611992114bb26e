"""What all routes share: the neighbours, the conversations, and whether messages are taken."""

from collections.abc import Callable, Mapping

import anyio
from starlette.responses import Response

from terret_agents import Agents
from terret_context import Context
from terret_sessions import SESSION_PERSISTENCE, Session, SessionPersistence

from ._auth import Tokens
from ._config import HttpConfig
from ._conversations import Conversation, Conversations, Turn, is_busy
from ._courier import Courier
from ._durability import Durability
from ._errors import HttpError, draining
from ._links import Links
from ._neighbours import (
    AGENT_FOLDERS,
    APPROVALS,
    LOOP_EVENTS,
    QUESTIONS,
    Approvals,
    Cursor,
    Definition,
    Questions,
)
from ._sse import EventResponse, Source, StreamSource, Writer, frame, frame_of_log
from ._status import Status
from ._turns import Reached, Turns


class Site:
    """The state of the service, and what its routes need of the harness."""

    def __init__(self, ctx: Context, config: HttpConfig, tokens: Tokens, links: Links) -> None:
        self.ctx = ctx
        self.config = config
        self.tokens = tokens
        self.links = links
        self.status = Status.STARTING
        self.loop_events = ctx[LOOP_EVENTS]
        self.folders = ctx[AGENT_FOLDERS]
        self.agents = ctx[Agents]
        self.conversations = Conversations(ctx)
        self.courier = Courier(ctx)
        self.durability = Durability(ctx)
        self.turns = Turns(ctx, self.loop_events, links)
        self._write, self._write_log = Writer(frame), Writer(frame_of_log)
        self.sources: set[Source] = set()
        """What is being streamed."""
        self.arriving: set[anyio.CancelScope] = set()
        """The bodies that are being read."""

    @property
    def persistence(self) -> SessionPersistence | None:
        """Where sessions are stored, if anywhere."""
        return self.ctx.get(SESSION_PERSISTENCE)

    @property
    def approvals(self) -> Approvals:
        """The calls that wait. Raises `HttpError` without the plugin."""
        found = self.ctx.get(APPROVALS)
        if found is None:
            raise HttpError(404, "unknown_item", "nobody is asked for approvals here")
        return found

    @property
    def questions(self) -> Questions:
        """The questions that wait. Raises `HttpError` without the plugin."""
        found = self.ctx.get(QUESTIONS)
        if found is None:
            raise HttpError(404, "unknown_item", "nobody is asked questions here")
        return found

    def definition(self, agent: str) -> Definition:
        """Returns a definition in force. Raises `HttpError`."""
        found = self.folders.definitions.get(agent)
        if found is not None:
            return found
        if agent in self.folders.names:
            raise HttpError(503, "agent_unavailable", f'the definition of "{agent}" is invalid')
        raise HttpError(404, "unknown_agent", f'there is no agent "{agent}"')

    def admit(self, session_id: str) -> None:
        """Raises `HttpError` if a message for a session would be one too many."""
        if self.status in (Status.DRAINING, Status.DRAINED):
            raise draining()
        running = [each for each in self.agents.roots() if is_busy(each)]
        if len(running) < self.config.max_concurrent_turns:
            return
        if all(each.id != session_id for each in running):
            raise HttpError(
                429,
                "too_many_turns",
                "too many turns run: try again in a moment",
                headers={"Retry-After": "1"},
            )

    async def answer(
        self,
        conversation: Conversation,
        look: Callable[[], Reached | None],
        turn: Callable[[], Turn | None],
    ) -> Response:
        """Waits for what `look` finds of a turn and answers with it. Raises `HttpError`."""
        seconds = self.config.max_wait_seconds
        reached = await self.turns.wait(conversation, look, seconds)
        if reached is None:
            raise self.turns.still_running(conversation, turn())
        session = conversation.session
        await self.durability.reach(session, len(session.events))
        return self.turns.answer(conversation, reached)

    def source(
        self,
        session: Session,
        session_id: str,
        agent: str,
        *,
        protocol: str = "v1",
        after: Cursor | None,
        turn_only: bool,
    ) -> StreamSource:
        """Opens the events of a session from a cursor on."""
        stream = self.loop_events.open(
            session,
            session_id=session_id,
            agent=agent,
            protocol=protocol,
            after=after,
            max_bytes=self.config.slow_reader_bytes,
        )
        write = self._write_log if protocol == "log" else self._write

        async def durable(seq: int) -> None:
            await self.durability.reach(session, seq + 1)

        return StreamSource(stream, durable, turn_only=turn_only, write=write)

    def stream(self, source: Source, headers: Mapping[str, str]) -> EventResponse:
        """Returns the response that streams a source."""
        seconds = self.config.heartbeat_seconds
        return EventResponse(source, self.sources, heartbeat_seconds=seconds, headers=headers)
