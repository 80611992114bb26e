"""What the service uses of other plugins; they are reached by their keys, never imported."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import anyio

from terret_agents import Agent, QuestionAnswer
from terret_context import Effect, ServiceKey
from terret_sessions import Session, SessionEvent
from terret_tools import ApprovalDecision, Tool

Cursor: TypeAlias = tuple[int, int]
"""The seq of a log event and the number of one of its outputs; -1 is in front of all of them."""


class Output(Protocol):
    """An event on its way to clients."""

    @property
    def cursor(self) -> Cursor: ...
    @property
    def event(self) -> Mapping[str, Any]: ...
    @property
    def json(self) -> bytes: ...


class EventStream(Protocol):
    """The events of a live session."""

    @property
    def overflowed(self) -> anyio.Event: ...
    async def batch(self) -> tuple[Output, ...]: ...
    def close(self) -> None: ...


class LoopEvents(Protocol):
    """The projections of session logs."""

    @property
    def protocols(self) -> tuple[str, ...]: ...
    @property
    def schema(self) -> bytes: ...
    def cursor(self, text: str, *, length: int) -> Cursor: ...
    def project(
        self,
        events: Iterable[SessionEvent],
        *,
        session_id: str,
        agent: str,
        protocol: str = ...,
        copied: int = ...,
        after: Cursor = ...,
    ) -> Iterator[Output]: ...
    def recall(
        self, session: Session, *, session_id: str, agent: str, after: Cursor | None = ...
    ) -> tuple[Output, ...]: ...
    def open(
        self,
        session: Session,
        *,
        session_id: str,
        agent: str,
        protocol: str = ...,
        after: Cursor | None = ...,
        max_bytes: int | None = ...,
    ) -> EventStream: ...


class AgentConfig(Protocol):
    """The keys of an agent's file."""

    @property
    def description(self) -> str | None: ...
    def model_dump(self, *, mode: str, by_alias: bool, exclude: set[str]) -> dict[str, Any]: ...


class Entries(Protocol):
    """Entries of plugins as a file has them."""

    @property
    def items(self) -> Mapping[str, object]: ...


class Definition(Protocol):
    """A valid agent of the project."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> AgentConfig: ...
    @property
    def prompt(self) -> str: ...
    @property
    def plugins(self) -> Entries | Mapping[str, Any] | None: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...
    @property
    def session_id_for(self) -> "Hook | None": ...
    @property
    def tenant_for(self) -> "Hook | None": ...


Hook: TypeAlias = Callable[[Mapping[str, Any]], str | Awaitable[str | None] | None]


class AgentFolders(Protocol):
    """The agents of the project and their instances."""

    @property
    def environment(self) -> str: ...
    @property
    def definitions(self) -> Mapping[str, Definition]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    async def check(self) -> Sequence[object]: ...
    async def open(self, name: str, raw_id: str | None = ..., *, tenant: str = ...) -> Agent: ...
    async def release(self, agent: Agent) -> None: ...


class Approvals(Protocol):
    """The calls that wait for a decision."""

    def find(self, id: str) -> object | None: ...
    def await_decisions(self) -> Effect: ...
    async def decide(self, id: str, decision: ApprovalDecision) -> None: ...


class Questions(Protocol):
    """The questions that wait for an answer."""

    def find(self, id: str) -> object | None: ...
    def await_answers(self) -> Effect: ...
    async def answer(self, id: str, answer: QuestionAnswer) -> None: ...


LOOP_EVENTS: Final = ServiceKey[LoopEvents]("loopEvents")
AGENT_FOLDERS: Final = ServiceKey[AgentFolders]("agentFolders")
APPROVALS: Final = ServiceKey[Approvals]("approval")
QUESTIONS: Final = ServiceKey[Questions]("questions")
