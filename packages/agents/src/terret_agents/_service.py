"""The registry of live agents, the slot of the loop that makes them, and the initiator."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager
from weakref import WeakKeyDictionary

import anyio

from terret_context import Config, Context, Effect, Service, scope_chain, scope_of

from ._agent import Agent, AgentOptions
from ._attempts import while_admitted
from ._entries import AgentEntry, open_entry
from ._errors import AgentExistsError, FactoryTakenError, NoFactoryError, NoSuchAgentError
from ._events import AGENT_DISPOSED, CREATED
from ._factory import AgentFactory, AgentHandle, CreateOptions, Meta, ResumeOptions, Seed, Setup
from ._initiator import InitiatorBlocks
from ._names import AgentNames, StartNamed
from ._payloads import AgentCreated, AgentDisposed


class _Registration:
    """One stay of an agent in the registry."""

    __slots__ = ("agent", "announced", "announcing", "gone", "left", "owner")

    def __init__(self, agent: Agent, owner: Agent | None) -> None:
        self.agent = agent
        self.owner = owner
        self.announcing = False
        self.announced = False
        self.left = False
        self.gone: anyio.Event | None = None  # made by the first who waits


class AgentsConfig(Config):
    """Configuration of the entry `agents`."""

    autostart: bool = True
    """Whether the agents in the configuration start with the harness; else they are only known."""


class Agents(Service, key="agents", config=AgentsConfig):
    """Creates agents through the mounted loop and knows the live ones."""

    def __init__(self, ctx: Context, config: AgentsConfig) -> None:
        super().__init__(ctx)
        self._autostart = config.autostart
        self._factory: tuple[AgentFactory, Context] | None = None
        self._live: dict[str, _Registration] = {}
        self._configured: dict[str, tuple[AgentEntry, Context]] = {}
        self._started: dict[str, AgentHandle] = {}
        self._names = AgentNames()
        self._blocks = InitiatorBlocks()
        self._attention = WeakKeyDictionary[Agent, anyio.Lock]()

    async def init(self) -> AsyncIterator[None]:
        """Waits at the end for blocks that name an initiator."""
        yield
        await self._blocks.drain(self.ctx.fiber)

    async def create(
        self,
        *,
        session_id: str,
        meta: Meta | None = None,
        seed: Seed | None = None,
        agent_options: AgentOptions | None = None,
        setup: Setup | None = None,
    ) -> AgentHandle:
        """Creates an agent over a new session, owned by the caller's fiber and the loop's.

        Raises `NoFactoryError`, and what the loop and `setup` raise; nothing of the attempt is
        left then. Cancelling the caller rolls back. If an owner stops meanwhile:
        `AgentDisposedError`.
        """
        options = CreateOptions(session_id, meta, seed, agent_options, setup)
        factory, provider = self._require_factory()
        owner = self.caller
        return await while_admitted(
            (owner, provider), lambda: factory.create_agent(owner, options), session_id
        )

    async def resume(
        self,
        *,
        resume_session_id: str,
        agent_options: AgentOptions | None = None,
        setup: Setup | None = None,
    ) -> AgentHandle:
        """Creates an agent over a stored session; otherwise like `create`.

        Raises `NoPersistenceError` without a backend, `SessionNotFoundError` for an unknown id.
        """
        options = ResumeOptions(resume_session_id, agent_options, setup)
        factory, provider = self._require_factory()
        owner = self.caller
        return await while_admitted(
            (owner, provider), lambda: factory.resume(owner, options), resume_session_id
        )

    def get(self, agent_id: str) -> Agent | None:
        """Returns the live agent of that id."""
        found = self._live.get(agent_id)
        return None if found is None else found.agent

    def list(self) -> tuple[Agent, ...]:
        """Returns the live agents in the order of their publication."""
        return tuple(registration.agent for registration in self._live.values())

    def roots(self) -> tuple[Agent, ...]:
        """Returns the live agents that were not created through another agent's context."""
        return tuple(found.agent for found in self._live.values() if found.owner is None)

    def is_owned_by(self, agent_id: str, agent: Agent) -> bool:
        """Tells whether that live agent was created through the context of `agent`."""
        found = self._live.get(agent_id)
        return found is not None and found.owner is agent

    def root_of(self, agent: Agent) -> Agent:
        """Returns the agent at the top of those through whose contexts an agent was created."""
        found = self._live.get(agent.id)
        while found is not None and found.owner is not None:
            agent = found.owner
            found = self._live.get(agent.id)
        return agent

    def attention(self, agent: Agent) -> anyio.Lock:
        """Returns what is held while people are asked for an agent; fair, one per root agent."""
        return self._attention.setdefault(self.root_of(agent), anyio.Lock())

    async def released(self, agent_id: str) -> None:
        """Returns when no agent of that id is on its way out; at once if none is."""
        while (found := self._live.get(agent_id)) is not None and found.agent.disposed:
            found.gone = found.gone or anyio.Event()
            await found.gone.wait()

    def set_factory(self, factory: AgentFactory) -> Effect:
        """Makes a loop the one that creates agents, as long as the caller's fiber is loaded.

        Raises `FactoryTakenError` if there is one.
        """
        return self.caller.effect(
            lambda: self._take_slot(factory, self.caller), label="agent factory"
        )

    def enter(self, agent: Agent, owner: Agent | None = None) -> Effect:
        """Enters an agent under its id; the effect takes exactly this entry out again.

        Raises `AgentExistsError`. While the agent is being announced the undo is postponed to
        the end of the announcement.
        """
        return self.caller.effect(lambda: self._admit(agent, owner), label=f"agent {agent.id}")

    def announce(self, agent: Agent) -> None:
        """Tells that an entered agent exists; a listener's exception takes it out and is raised."""
        registration = self._live.get(agent.id)
        if registration is None or registration.agent is not agent or registration.announced:
            raise ValueError(f'the agent "{agent.id}" is not entered, or announced already')
        registration.announcing = registration.announced = True
        try:
            self.ctx.bail(CREATED, AgentCreated(agent))
        except Exception:
            registration.left = True
            raise
        finally:
            registration.announcing = False
            if registration.left:
                self._remove(registration)

    def register(self, agent: Agent) -> Effect:
        """Enters and announces an agent; the effect belongs to the caller's fiber."""
        entry = self.enter(agent, agent_of(self.caller))
        self.announce(agent)
        return entry

    def with_initiator(self, agent: Agent) -> AbstractContextManager[None]:
        """Names the agent that causes what the block does; tasks started in it inherit that."""
        return self._blocks.block(agent)

    def without_initiator(self) -> AbstractContextManager[None]:
        """Lets the block run as caused by no agent."""
        return self._blocks.block(None)

    def configure(self, entries: Iterable[AgentEntry]) -> Effect:
        """Makes the agents of a configuration known, as long as the caller's fiber is loaded."""
        return self.caller.effect(
            lambda: self._know(tuple(entries), self.caller), label="configured agents"
        )

    def reserve(self, names: Iterable[str], *, place: str) -> Effect:
        """Takes the names of a configuration's agents, before they can start; `place` is its place.

        Raises `AgentNameTakenError` if another place has one of them.
        """
        return self.caller.effect(
            lambda: self._names.take(names, place, None), label="names of agents"
        )

    def offer(self, name: str, start: StartNamed, *, place: str) -> Effect:
        """Makes an agent known that is started in its own way: `start` of it is `await start(id)`.

        It is known as long as the caller's fiber is loaded. Raises `AgentNameTakenError`.
        """
        return self.caller.effect(
            lambda: self._names.take((name,), place, start), label=f"agent name {name}"
        )

    def names(self) -> tuple[str, ...]:
        """Returns the names of all agents that `start` can start."""
        return (*self._configured, *self._names.offered)

    @property
    def autostart(self) -> bool:
        """Whether configured agents start with the harness."""
        return self._autostart

    def entries(self) -> tuple[AgentEntry, ...]:
        """Returns the agents that the configuration lists, started or not."""
        return tuple(entry for entry, _ in self._configured.values())

    def named(self, label: str) -> Agent | None:
        """Returns the live agent that was started for a label of the configuration."""
        handle = self._started.get(label)
        live = handle is not None and self.get(handle.agent.id) is handle.agent
        return handle.agent if handle is not None and live else None

    async def start(self, label: str, *, session_id: str | None = None) -> Agent:
        """Starts an agent of the configuration; a running instance of it is disposed first.

        `session_id` takes the place of the entry's own session: resumed if it is stored, else
        created. An offered agent is started as its offer says. Raises `NoSuchAgentError`, and
        whatever keeps the agent from starting.
        """
        if (offered := self._names.starter(label)) is not None:
            return await offered(session_id)
        if label not in self._configured:
            raise NoSuchAgentError(label, self.names())
        entry, ctx = self._configured[label]
        if session_id is not None:
            entry = entry.model_copy(update={"session_id": session_id, "resume_session_id": None})
        running = self._started.pop(label, None)
        if running is not None:
            await running.dispose()
        handle = await open_entry(ctx[Agents], ctx, entry)
        self._started[label] = handle
        return handle.agent

    def _require_factory(self) -> tuple[AgentFactory, Context]:
        if self._factory is None:
            raise NoFactoryError
        return self._factory

    def _take_slot(self, factory: AgentFactory, ctx: Context) -> Callable[[], None]:
        if self._factory is not None:
            raise FactoryTakenError(str(self._factory[1].fiber), str(ctx.fiber))
        self._factory = (factory, ctx)
        return self._free_slot

    def _free_slot(self) -> None:
        self._factory = None

    def _know(self, entries: tuple[AgentEntry, ...], ctx: Context) -> Callable[[], None]:
        for entry in entries:
            if entry.id in self._configured:
                raise ValueError(f'an agent "{entry.id}" is configured already')
        self._configured.update({entry.id: (entry, ctx) for entry in entries})
        return lambda: self._forget(entries)

    def _forget(self, entries: tuple[AgentEntry, ...]) -> None:
        for entry in entries:
            del self._configured[entry.id]
            self._started.pop(entry.id, None)

    def _admit(self, agent: Agent, owner: Agent | None) -> Callable[[], None]:
        if agent.id in self._live:
            raise AgentExistsError(agent.id)
        registration = self._live[agent.id] = _Registration(agent, owner)
        return lambda: self._leave(registration)

    def _leave(self, registration: _Registration) -> None:
        registration.left = True
        if not registration.announcing:
            self._remove(registration)

    def _remove(self, registration: _Registration) -> None:
        agent = registration.agent
        if self._live.get(agent.id) is not registration:
            return
        del self._live[agent.id]
        if registration.gone is not None:
            registration.gone.set()
        if registration.announced:
            self.ctx.emit(AGENT_DISPOSED, AgentDisposed(agent))


def agent_of(ctx: Context) -> Agent | None:
    """Returns the nearest agent in whose scope a context lies."""
    return next((key for key in scope_chain(scope_of(ctx)) if isinstance(key, Agent)), None)
