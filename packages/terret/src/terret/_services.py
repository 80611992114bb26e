"""The services of plugins that commands use: reached by key, since no plugin is imported here."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from terret_agents import Agent, QuestionAnswer
from terret_context import Effect, ServiceKey
from terret_loader import Fault
from terret_sessions import SessionEvent
from terret_tools import ApprovalDecision, ToolExec


class Folders(Protocol):
    """The agents that a project defines in folders."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def definitions(self) -> Mapping[str, object]: ...
    @property
    def faults(self) -> Sequence[Fault]: ...
    @property
    def environment(self) -> str: ...
    async def check(self) -> Sequence[Fault]: ...
    async def reload(self) -> Sequence[Fault]: ...
    async def open(
        self, name: str, raw_id: str | None = None, *, tenant: str = "default"
    ) -> Agent: ...
    def scaffold_agent(
        self,
        name: str,
        *,
        system_prompt: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        python: bool = False,
    ) -> Path: ...
    def scaffold_subagent(self, parent: str, name: str) -> Path: ...


class Http(Protocol):
    """The service that answers requests."""

    async def serve(self, *, bound: Callable[[str], object]) -> None: ...
    async def drain(self, seconds: float | None = None) -> None: ...


class ApprovalItem(Protocol):
    """A call that somebody has to decide about."""

    @property
    def id(self) -> str: ...
    @property
    def agent(self) -> Agent: ...
    @property
    def call(self) -> ToolExec: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def editable(self) -> bool: ...
    @property
    def requested_at(self) -> datetime: ...
    @property
    def expires_at(self) -> datetime: ...


class Approvals(Protocol):
    """Whoever is to decide about calls is added here."""

    def approver(
        self, approver: Callable[[ApprovalItem], Awaitable[ApprovalDecision | None]]
    ) -> Effect: ...
    async def check(self, item: ApprovalItem, decision: ApprovalDecision) -> None: ...


class QuestionItem(Protocol):
    """A question of a model."""

    @property
    def agent(self) -> Agent: ...
    @property
    def question(self) -> str: ...
    @property
    def options(self) -> Sequence[str] | None: ...


class Questions(Protocol):
    """Whoever is to answer questions is added here."""

    def channel(
        self, channel: Callable[[QuestionItem], Awaitable[QuestionAnswer | None]]
    ) -> Effect: ...


class Projection(Protocol):
    """A fold of a log, fed with one event after the other."""

    def feed(self, event: SessionEvent) -> Iterable[Mapping[str, object]]: ...


class Output(Protocol):
    """What a fold gave."""

    @property
    def json(self) -> bytes: ...


class LoopEvents(Protocol):
    """The log as clients see it."""

    def projection(self, *, session_id: str, agent: str, copied: int = 0) -> Projection: ...
    def project(
        self,
        events: Iterable[SessionEvent],
        *,
        session_id: str,
        agent: str,
        protocol: str = "v1",
        copied: int = 0,
    ) -> Iterator[Output]: ...


AGENT_FOLDERS: Final[ServiceKey[Folders]] = ServiceKey("agentFolders")
HTTP: Final[ServiceKey[Http]] = ServiceKey("http")
APPROVALS: Final[ServiceKey[Approvals]] = ServiceKey("approval")
QUESTIONS: Final[ServiceKey[Questions]] = ServiceKey("questions")
LOOP_EVENTS: Final[ServiceKey[LoopEvents]] = ServiceKey("loopEvents")
