"""The services of plugins that commands use: reached by key, since no plugin is imported here."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from terret_agents import Agent, QuestionAnswer
from terret_context import Effect, ServiceKey
from terret_sessions import SessionEvent
from terret_tools import ApprovalDecision, ToolExec


class Folders(Protocol):
    """The agents that a project defines in folders."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def environment(self) -> str: ...
    async def open(
        self, name: str, raw_id: str | None = None, *, tenant: str = "default"
    ) -> Agent: ...


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
APPROVALS: Final[ServiceKey[Approvals]] = ServiceKey("approval")
QUESTIONS: Final[ServiceKey[Questions]] = ServiceKey("questions")
LOOP_EVENTS: Final[ServiceKey[LoopEvents]] = ServiceKey("loopEvents")
