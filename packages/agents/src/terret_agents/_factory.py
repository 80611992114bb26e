"""The seam between the registry and a loop: what is asked, what is given back."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

from terret_context import Context
from terret_sessions import SessionEvent, SessionMeta

from ._agent import Agent, AgentOptions

Setup: TypeAlias = Callable[[Context], Awaitable[Callable[[], None] | None]]
"""Composes an agent through its context before it is published; must not drive it.

May return a plain function, the last chance to refuse.
"""
Seed: TypeAlias = Iterable[SessionEvent | Mapping[str, object]]
Meta: TypeAlias = SessionMeta | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CreateOptions:
    """What `Agents.create` was asked for."""

    session_id: str
    meta: Meta | None = None
    seed: Seed | None = None
    agent_options: AgentOptions | None = None
    setup: Setup | None = None


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """What `Agents.resume` was asked for."""

    resume_session_id: str
    agent_options: AgentOptions | None = None
    setup: Setup | None = None


class AgentHandle(Protocol):
    """The right to dispose an agent; as an async context manager it does so at the end."""

    @property
    def agent(self) -> Agent:
        """The agent."""

    def retire(self) -> None:
        """Asks for the teardown: nothing is accepted from here on."""

    async def dispose(self) -> None:
        """Tears the agent down and returns when it is gone; all callers join one teardown.

        A failing cleanup is reported, not raised. Cancelling the caller does not stop it.
        """

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...


class AgentFactory(Protocol):
    """What a loop registers with `Agents.set_factory`.

    Dependencies come from the factory's own context; `owner_ctx` is the caller's, and the agent
    ends with either. Both methods end with `publish_agent`.
    """

    async def create_agent(self, owner_ctx: Context, options: CreateOptions) -> AgentHandle:
        """Creates an agent over a new session."""

    async def resume(self, owner_ctx: Context, options: ResumeOptions) -> AgentHandle:
        """Creates an agent over a stored session."""
