"""The service: protocols by name, replay of stored logs, streams of live ones."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, Protocol

from pydantic import Field

from terret_context import (
    Config,
    Context,
    Effect,
    NamedLayers,
    Service,
    TerretError,
    did_you_mean,
)
from terret_sessions import DISPOSED, EVENT, Session, SessionEvent, Sessions

from ._cursor import START, Cursor
from ._log_projection import LogProjection
from ._projection import SUMMARY_MAX_BYTES, EventProjection, Projection
from ._schema import InvalidLoopEventError, schema_bytes, validate
from ._stream import EventStream, Output, Tail, outputs

V1: Final = "v1"


class UnknownProtocolError(TerretError, LookupError):
    """No projection is registered under a name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        listed = ", ".join(self.known)
        hint = did_you_mean(name, self.known)
        super().__init__(f'there is no protocol "{name}"{hint} (known: {listed})')


class ProjectionFactory(Protocol):
    """Makes the projection of one session; `copied` events came from the parent of a fork."""

    def __call__(self, session_id: str, agent: str, *, copied: int = 0) -> EventProjection: ...


class LoopEventsConfig(Config):
    """Settings of the entry `loop-events`."""

    summary_max_bytes: int = Field(default=SUMMARY_MAX_BYTES, ge=1)
    """Where the summary of a tool result is cut."""
    validate_every: int = Field(default=100, ge=0)
    """Every how many live events one is checked against the schema; 0 for none."""


class LoopEvents(Service, key="loopEvents", config=LoopEventsConfig, inject=(Sessions,)):
    """Shows sessions as streams of events: protocol `v1`, the `log` itself, and what is registered.

    `session_id` and `agent` are what clients call a session and its agent.
    """

    def __init__(self, ctx: Context, config: LoopEventsConfig) -> None:
        super().__init__(ctx, config)
        self._every = config.validate_every
        self._delivered = 0
        self._factories = NamedLayers[ProjectionFactory]("protocol")
        self._tails: dict[Session, dict[tuple[str, str, str], Tail]] = {}
        v1 = partial(Projection, summary_max_bytes=config.summary_max_bytes)
        self._built_in: dict[str, ProjectionFactory] = {V1: v1, "log": LogProjection}

    def init(self) -> None:
        for name, factory in self._built_in.items():
            self._factories.add(self.ctx, name, factory)
        self.ctx.on(EVENT, self._on_event)
        self.ctx.on(DISPOSED, self._on_disposed)
        self.ctx.effect(lambda: self._close, label="event streams")

    def register(self, name: str, factory: ProjectionFactory) -> Effect:
        """Adds a protocol; raises `DuplicateEntryError` for a name that is taken."""
        return self._factories.add(self.caller, name, factory)

    @property
    def protocols(self) -> tuple[str, ...]:
        """The names of the protocols."""
        return tuple(self._factories.merged())

    @property
    def schema(self) -> bytes:
        """The JSON Schema of protocol v1, byte for byte as published."""
        return schema_bytes()

    def cursor(self, text: str, *, length: int) -> Cursor:
        """Reads a place in a log of that many events, `SEQ.K` or `0` for its beginning.

        Raises `BadCursorError`.
        """
        return Cursor.parse(text, length=length)

    def projection(
        self, *, session_id: str, agent: str, protocol: str = V1, copied: int = 0
    ) -> EventProjection:
        """Makes a fold that takes a log event by event, from its first one on.

        `copied` is how many of them came from the parent of a fork. Raises `UnknownProtocolError`.
        """
        factory = self._factories.get(protocol)
        if factory is None:
            raise UnknownProtocolError(protocol, self.protocols)
        return factory(session_id, agent, copied=copied)

    def project(
        self,
        events: Iterable[SessionEvent],
        *,
        session_id: str,
        agent: str,
        protocol: str = V1,
        copied: int = 0,
        after: Cursor = START,
    ) -> Iterator[Output]:
        """Folds a log that need not be live and gives what follows the cursor.

        Raises `UnknownProtocolError`.
        """
        projection = self.projection(
            session_id=session_id, agent=agent, protocol=protocol, copied=copied
        )
        return outputs(projection, tuple(events), after)

    def open(
        self,
        session: Session,
        *,
        session_id: str,
        agent: str,
        protocol: str = V1,
        after: Cursor | None = None,
        max_bytes: int | None = None,
    ) -> EventStream:
        """Streams a live session from a cursor on; to be closed by the caller.

        Without cursor it begins with the open turn, or with what comes next if there is none. It
        ends with the session. Raises `UnknownProtocolError`.
        """
        key = (protocol, session_id, agent)
        start = _now(session) if after is None else after
        shared = self._tails.get(session, {}).get(key)
        if shared is not None and shared.covers(start):
            return EventStream(session, start, shared, None, max_bytes)
        join = partial(self._join, session, key)
        return EventStream(session, start, self._tail(session, key), join, max_bytes)

    def recall(
        self, session: Session, *, session_id: str, agent: str, after: Cursor | None = None
    ) -> tuple[Output, ...]:
        """Gives the events of protocol v1 behind a cursor so far, by default of the last turn.

        The log of a live session is folded once, however often it is asked about its last turn.
        """
        key = (V1, session_id, agent)
        tail = self._tails.get(session, {}).get(key)
        if tail is None:
            tail = self._tail(session, key)
            for event in session.events:
                tail.take(event)
            if session.live:
                self._share(session, key, tail)
        if after is None or tail.covers(after):
            return tuple(tail.recall(START if after is None else after))
        copied = session.header.seed_length or 0
        events = session.events
        return tuple(
            self.project(events, session_id=session_id, agent=agent, copied=copied, after=after)
        )

    def _tail(self, session: Session, key: tuple[str, str, str]) -> Tail:
        protocol, session_id, agent = key
        copied = session.header.seed_length or 0
        projection = self.projection(
            session_id=session_id, agent=agent, protocol=protocol, copied=copied
        )
        return Tail(projection, kept=protocol == V1)

    def _share(self, session: Session, key: tuple[str, str, str], tail: Tail) -> None:
        tail.seen = self._sample if key[0] == V1 else None
        self._tails.setdefault(session, {})[key] = tail

    def _join(
        self, session: Session, key: tuple[str, str, str], stream: EventStream, tail: Tail
    ) -> Tail:
        if not session.live:
            stream.close()
            return tail
        shared = self._tails.get(session, {}).get(key)
        if shared is None or not (shared.kept or shared.streams):
            self._share(session, key, tail)
            shared = tail
        shared.streams.add(stream)
        return shared

    def _on_event(self, session: Session, event: SessionEvent) -> None:
        for tail in tuple(self._tails.get(session, {}).values()):
            if tail.kept or tail.streams:
                tail.feed(event)

    def _on_disposed(self, session: Session) -> None:
        for tail in self._tails.pop(session, {}).values():
            for stream in tuple(tail.streams):
                stream.close()

    def _close(self) -> None:
        for session in tuple(self._tails):
            self._on_disposed(session)

    def _sample(self, output: Output) -> None:
        self._delivered += 1
        if not self._every or self._delivered % self._every:
            return
        try:
            validate(output.event)
        except InvalidLoopEventError as error:
            self.ctx.report(error, label="an event of protocol v1")


def _now(session: Session) -> Cursor:
    events = session.events
    if session.open_turn is None:
        return Cursor(len(events), -1)
    start = next(event.seq for event in reversed(events) if event.type == "turn/start")
    return Cursor(start, -1)
