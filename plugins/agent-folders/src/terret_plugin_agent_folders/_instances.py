"""The running agents of definitions: one per session key."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

import anyio

from terret_agents import (
    AGENT_DISPOSED,
    STATUS,
    Agent,
    AgentBusyError,
    AgentDisposed,
    AgentHandle,
    Agents,
    StatusChange,
    clock_of,
    resume_or_create,
)
from terret_context import Context
from terret_loader import Loader
from terret_sessions import (
    SESSION_PERSISTENCE,
    SessionKey,
    SessionMeta,
)

from ._composing import compose
from ._definition import Definition, DefinitionPart


@dataclass(slots=True)
class _Instance:
    definition: Definition
    handle: AgentHandle
    idle_since: datetime


class Instances:
    """Opens agents, each once, and takes those down that have been idle for long."""

    def __init__(
        self,
        ctx: Context,
        parts: Sequence[DefinitionPart],
        vet: Callable[[Definition], Awaitable[None]],
        idle_seconds: float,
    ) -> None:
        self._ctx = ctx
        self._parts = parts
        self._vet = vet
        self._patience = timedelta(seconds=idle_seconds)
        self._clock = clock_of(ctx)
        self._live: dict[str, _Instance] = {}
        self._opening: dict[str, Definition] = {}
        self._locks = WeakValueDictionary[str, anyio.Lock]()

    def start(self) -> None:
        """Begins to watch the instances, as long as the fiber of the context runs."""
        self._ctx.on(STATUS, self._note)
        self._ctx.on(AGENT_DISPOSED, self._forget)
        self._ctx.spawn(self._evict, name="evict")

    def definition_of(self, agent: Agent) -> Definition | None:
        """Returns what an agent is made of, if it is an instance of a definition."""
        found = self._live.get(agent.id)
        if found is not None and found.handle.agent is agent:
            return found.definition
        return self._opening.get(agent.id)

    async def open(self, definition: Definition, key: SessionKey) -> Agent:
        """Returns the live agent of a key, or makes it: of its stored session, or a new one.

        An idle agent of another definition is made again of this one. Raises what `vet` raises.
        """
        session_id = str(key)
        async with self._locks.setdefault(session_id, anyio.Lock()):
            found = self._live.get(session_id)
            if found is not None and self._is_current(found, definition):
                found.idle_since = self._clock.now()
                return found.handle.agent
            await self._vet(definition)
            if found is not None:
                await found.handle.agent.when_idle()
                await found.handle.dispose()
            await self._ctx[Agents].released(session_id)
            self._opening[session_id] = definition
            try:
                handle = await self._make(definition, key)
            finally:
                del self._opening[session_id]
            self._live[session_id] = _Instance(definition, handle, self._clock.now())
            return handle.agent

    async def release(self, agent: Agent) -> None:
        """Takes an idle instance down. Raises `AgentBusyError` while it works."""
        async with self._locks.setdefault(agent.id, anyio.Lock()):
            found = self._live.get(agent.id)
            if found is None or found.handle.agent is not agent:
                return
            if agent.status != "idle":
                raise AgentBusyError(agent.id, "a turn")
            await found.handle.dispose()

    async def _make(self, definition: Definition, key: SessionKey) -> AgentHandle:
        agents, loader, options = self._ctx[Agents], self._ctx[Loader], definition.options()

        async def setup(ctx: Context) -> None:
            await compose(ctx, loader, definition, key, self._parts)

        cwd = None if definition.cwd is None else str(definition.cwd)
        return await resume_or_create(
            agents,
            self._ctx,
            session_id=str(key),
            meta=SessionMeta(cwd=cwd, agent_preset=definition.name),
            agent_options=options,
            setup=setup,
        )

    @property
    def _is_stored(self) -> bool:
        """Whether an agent can come back from its log."""
        return self._ctx.get(SESSION_PERSISTENCE) is not None

    def _is_current(self, found: _Instance, definition: Definition) -> bool:
        """Whether an instance may serve the next message, if need be of an older definition."""
        agent = found.handle.agent
        # After a turn it may still be busy with the last flush.
        works = agent.session.open_turn is not None or agent.inbox.has_pending
        is_replaceable = self._is_stored and (agent.status == "idle" or not works)
        return not agent.disposed and (found.definition == definition or not is_replaceable)

    def _note(self, change: StatusChange) -> None:
        found = self._live.get(change.agent.id)
        if found is not None:
            found.idle_since = self._clock.now()

    def _forget(self, disposed: AgentDisposed) -> None:
        found = self._live.get(disposed.agent.id)
        if found is not None and found.handle.agent is disposed.agent:
            del self._live[disposed.agent.id]

    async def _evict(self) -> None:
        while True:
            await self._clock.sleep(self._next_deadline().total_seconds())
            for found in tuple(self._live.values()):
                if self._is_due(found):
                    await found.handle.dispose()

    def _next_deadline(self) -> timedelta:
        """In how much time the first instance can be due; who is idle later is due later."""
        now = self._clock.now()
        idle = (f.idle_since for f in self._live.values() if f.handle.agent.status == "idle")
        first = min((since + self._patience for since in idle), default=now + self._patience)
        return max(first - now, timedelta(seconds=1))

    def _is_due(self, found: _Instance) -> bool:
        is_idle = found.handle.agent.status == "idle"
        waited = self._clock.now() - found.idle_since
        return self._is_stored and is_idle and waited >= self._patience
