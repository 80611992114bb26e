"""The birth and the end of an agent, the same for every loop."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Literal, Self, TypeAlias

import anyio

from terret_context import Context, Effect, Fiber
from terret_sessions import SESSION_PERSISTENCE, Session, Sessions

from ._agent import DISPOSED, Agent, AgentOptions
from ._base import AgentBase
from ._errors import AgentDisposedError, NoPersistenceError
from ._events import SESSION_START
from ._factory import AgentHandle, CreateOptions, ResumeOptions, Setup
from ._payloads import SessionStart
from ._service import Agents, agent_of

Source: TypeAlias = Literal["startup", "resume"]


async def publish_agent(
    owner_ctx: Context,
    factory_ctx: Context,
    agent: AgentBase,
    *,
    setup: Setup | None = None,
    source: Source = "startup",
) -> AgentHandle:
    """Composes, enters and announces an agent, or leaves nothing of it.

    Session and agent are unpublished until `setup` has ended. The agent ends with the fiber of
    either context, or through the handle. Any failure, and cancellation of the caller, rolls
    back in reverse and is raised as it was.
    """
    life = _Life(owner_ctx, factory_ctx, agent)
    published = False
    try:
        if setup is not None:
            commit = await setup(agent.ctx)
            if commit is not None:
                commit()
        life.publish(source)
        published = True
    finally:
        if not published:
            life.refuse()
            with anyio.CancelScope(shield=True):
                await life.close()
    return life


def publish_agent_nowait(
    owner_ctx: Context, factory_ctx: Context, agent: AgentBase, *, source: Source = "startup"
) -> AgentHandle:
    """As `publish_agent` without a setup, at once; the rollback of a failure runs in a task."""
    life = _Life(owner_ctx, factory_ctx, agent)
    published = False
    try:
        life.publish(source)
        published = True
    finally:
        if not published:
            life.refuse()
            life.retire()
    return life


def stored_session(ctx: Context, session_id: str) -> AbstractAsyncContextManager[Session]:
    """Returns the stored session, unpublished; publish its agent inside the `async with`.

    Raises `NoPersistenceError`; entering raises `SessionNotFoundError`.
    """
    persistence = ctx.get(SESSION_PERSISTENCE)
    if persistence is None:
        raise NoPersistenceError(session_id)
    return persistence.prepare(session_id)


class LoopFactory:
    """The usual `AgentFactory`: it opens the session, and `make` makes the agent over it.

    `make(session, options)` gives an agent whose context is still missing; `ctx` is the loop's own.
    """

    def __init__(
        self, ctx: Context, make: Callable[[Session, AgentOptions | None], AgentBase]
    ) -> None:
        self._ctx = ctx
        self._make = make

    async def create_agent(self, owner_ctx: Context, options: CreateOptions) -> AgentHandle:
        """See `AgentFactory.create_agent`."""
        session = self._ctx[Sessions].prepare(
            options.session_id, seed=options.seed, meta=options.meta
        )
        agent = self._make(session, options.agent_options)
        return await publish_agent(owner_ctx, self._ctx, agent, setup=options.setup)

    async def resume(self, owner_ctx: Context, options: ResumeOptions) -> AgentHandle:
        """See `AgentFactory.resume`."""
        async with stored_session(self._ctx, options.resume_session_id) as session:
            agent = self._make(session, options.agent_options)
            return await publish_agent(
                owner_ctx, self._ctx, agent, setup=options.setup, source="resume"
            )


class _Life:
    """An agent between its scope and its last detach; the handle that `publish_agent` returns."""

    def __init__(self, owner_ctx: Context, factory_ctx: Context, agent: AgentBase) -> None:
        self._agent = agent
        self._owners = {ctx.fiber: ctx for ctx in (owner_ctx, factory_ctx)}
        self._owner = agent_of(owner_ctx)
        # Entered through the services themselves, so that the entries end by the teardown below
        # and not, too early, with the fiber of a caller.
        self._sessions = factory_ctx[Sessions].origin
        self._agents = factory_ctx[Agents].origin
        self._entries: list[Effect] = []
        self._holds: dict[Fiber, Effect] = {}
        self._retired = self._ending = False
        self._gone = anyio.Event()
        agent._bind(factory_ctx.scope(agent), tuple(self._owners))

    @property
    def agent(self) -> Agent:
        return self._agent

    def publish(self, source: Source) -> None:
        agent = self._agent
        for fiber, ctx in self._owners.items():
            end = partial(self.close, asked_by=fiber)
            self._holds[fiber] = ctx.effect(lambda end=end: end, label=f"agent {agent.id}")
        self._entries.append(self._sessions.enter(agent.session, scope=agent))
        self._entries.append(self._agents.enter(agent, self._owner))
        self._sessions.announce(agent.session)
        self._check_owners()
        self._agents.announce(agent)
        self._check_owners()
        agent.ctx.emit(SESSION_START, SessionStart(agent, source))
        self._check_owners()
        agent.start_driver()

    def refuse(self) -> None:
        if self._agent.session.live:
            self._sessions.refuse(self._agent.session)  # nothing of it is to be stored

    def retire(self) -> None:
        if self._retired or self._ending:
            return
        self._retired = True
        self._stop()
        if self._agents.ctx.fiber.admits:  # else the owners are unloading, and with them this
            self._agents.ctx.spawn(self._close_held, name=f"teardown of {self._agent.id}")

    async def dispose(self) -> None:
        self.retire()
        await self._gone.wait()

    async def close(self, asked_by: Fiber | None = None) -> None:
        if self._ending:
            await self._gone.wait()
            return
        self._ending = True
        try:
            self._stop()
            await self._agent.when_idle()
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await self._leave()
                finally:
                    self._gone.set()
                for fiber, hold in self._holds.items():
                    if fiber is not asked_by:
                        await hold.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.dispose()

    def _check_owners(self) -> None:
        if self._agent.disposed:
            raise AgentDisposedError(self._agent.id)

    def _stop(self) -> None:
        self._agent._end()
        # Pending input stays in the log: it is there again when the session is resumed.
        self._agent.cancel(DISPOSED, keep_inbox=True)

    async def _close_held(self) -> None:
        # Through the effect of an owner: the container bounds it and reports what outlasts it.
        hold = next(iter(self._holds.values()), None)
        try:
            await (self.close() if hold is None else hold.aclose())
        except Exception as error:
            self._agents.ctx.report(error, label=f"teardown of {self._agent.id}")

    async def _leave(self) -> None:
        try:
            await self._agent.ctx.fiber.dispose()
        finally:
            for entry in reversed(self._entries):
                await entry.aclose()
