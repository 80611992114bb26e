"""Agents named in the configuration of a loop."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import PurePath
from typing import Annotated, Protocol, Self, TypeAlias, TypeVar
from uuid import uuid4

from pydantic import AfterValidator, Field, PositiveInt, field_validator, model_validator

from terret_context import Config, Context
from terret_sessions import (
    SESSION_PERSISTENCE,
    SessionConflictError,
    SessionMeta,
    SessionNotFoundError,
)

from ._agent import AgentOptions
from ._factory import AgentHandle, Setup


class AgentEntry(Config):
    """One item of a loop's `agents` list; a loop with more keys subclasses it."""

    id: str = Field(min_length=1)
    """Label of the agent; a fresh session is named `<id>-session-<uuid>`."""
    session_id: str | None = Field(default=None, min_length=1)
    """Session of the agent: resumed if it is stored, else created."""
    resume_session_id: str | None = Field(default=None, min_length=1)
    """Stored session of the agent; it must exist."""
    provider: str | None = None
    """Route of the requests, as an adapter registered it."""
    model: str | None = None
    """Model of the requests; left out, the adapter's default."""
    max_tokens: PositiveInt | None = None
    """Output cap of each request; left out, the adapter's default."""
    cwd: str | None = None
    """Absolute working directory of a fresh session."""
    max_parallel_tool_calls: PositiveInt | None = None
    """How many tool calls of this agent may overlap; 1 is serial."""

    @field_validator("cwd")
    @classmethod
    def _absolute(cls, cwd: str | None) -> str | None:
        if cwd is not None and not PurePath(cwd).is_absolute():
            raise ValueError(f'"{cwd}" is not an absolute path')
        return cwd

    @model_validator(mode="after")
    def _one_session(self) -> Self:
        if self.session_id is not None and self.resume_session_id is not None:
            raise ValueError("give either sessionId or resumeSessionId, not both")
        return self

    def options(self) -> AgentOptions:
        """Returns what the agent is created with."""
        return AgentOptions(
            provider=self.provider,
            model=self.model,
            max_tokens=self.max_tokens,
            max_parallel_tool_calls=self.max_parallel_tool_calls,
        )


E = TypeVar("E", bound=Sequence[AgentEntry])


def unique_entries(entries: E) -> E:
    """Returns the entries. Raises `ValueError` if two have one label or one session."""
    labels = [entry.id for entry in entries]
    sessions = [entry.session_id or entry.resume_session_id for entry in entries]
    for what, names in (("id", labels), ("session", [name for name in sessions if name])):
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ValueError(f'two agents have the {what} "{double}"')
    return entries


AgentEntries: TypeAlias = Annotated[tuple[AgentEntry, ...], AfterValidator(unique_entries)]
"""The type of a loop's configuration field `agents`."""


class AgentMaker(Protocol):
    """What starting an entry needs of the agents service, as seen by the entry's owner."""

    async def create(
        self,
        *,
        session_id: str,
        meta: SessionMeta,
        agent_options: AgentOptions,
        setup: Setup | None = None,
    ) -> AgentHandle: ...
    async def resume(
        self, *, resume_session_id: str, agent_options: AgentOptions, setup: Setup | None = None
    ) -> AgentHandle: ...
    async def released(self, agent_id: str) -> None: ...


async def open_entry(agents: AgentMaker, ctx: Context, entry: AgentEntry) -> AgentHandle:
    """Starts the agent of an entry: over its stored session, its exact one, or a fresh one."""
    options = entry.options()
    if entry.resume_session_id is not None:
        return await agents.resume(resume_session_id=entry.resume_session_id, agent_options=options)
    meta = SessionMeta(cwd=entry.cwd, agent_preset=entry.id)
    if entry.session_id is None:
        session_id = f"{entry.id}-session-{uuid4()}"
        return await agents.create(session_id=session_id, meta=meta, agent_options=options)
    await agents.released(entry.session_id)
    return await resume_or_create(
        agents, ctx, session_id=entry.session_id, meta=meta, agent_options=options
    )


async def resume_or_create(
    agents: AgentMaker,
    ctx: Context,
    *,
    session_id: str,
    meta: SessionMeta,
    agent_options: AgentOptions,
    setup: Setup | None = None,
) -> AgentHandle:
    """Creates an agent over the stored session of an id, or over a new one if there is none.

    What another process does with the session at the same time comes before this, or after it.
    `ctx` sees the persistence. Raises what `Agents.create` and `Agents.resume` raise.
    """
    persistence = ctx.get(SESSION_PERSISTENCE)
    if persistence is None:
        return await agents.create(
            session_id=session_id, meta=meta, agent_options=agent_options, setup=setup
        )
    while True:
        try:
            return await agents.resume(
                resume_session_id=session_id, agent_options=agent_options, setup=setup
            )
        except SessionNotFoundError:  # only this one falls through to creation
            pass
        async with AsyncExitStack() as claimed:
            try:
                await claimed.enter_async_context(persistence.claim(session_id))
            except SessionConflictError:  # somebody else was faster
                continue
            return await agents.create(
                session_id=session_id, meta=meta, agent_options=agent_options, setup=setup
            )
