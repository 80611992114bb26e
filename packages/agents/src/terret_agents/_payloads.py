"""The payloads of the live events of agents."""

from dataclasses import dataclass
from typing import Literal

from terret_llm import LlmFailure, Message, RetryPolicy

from ._agent import Agent, Status
from ._decisions import Continue, Stop
from ._inbox import Target


@dataclass(frozen=True, slots=True)
class AgentPayload:
    """What every payload has: the agent, which is the subject of its event."""

    agent: Agent


@dataclass(frozen=True, slots=True)
class AgentCreated(AgentPayload):
    """An agent is about to be published."""


@dataclass(frozen=True, slots=True)
class AgentDisposed(AgentPayload):
    """An agent left the registry."""


@dataclass(frozen=True, slots=True)
class SessionStart(AgentPayload):
    """An agent was published, new or over a stored log."""

    source: Literal["startup", "resume"]


@dataclass(frozen=True, slots=True)
class StatusChange(AgentPayload):
    """An agent became idle or running."""

    status: Status


@dataclass(frozen=True, slots=True)
class InputQueued(AgentPayload):
    """A message was put into the inbox."""

    message: Message
    target: Target
    wake: bool


@dataclass(frozen=True, slots=True)
class InputClaimed(AgentPayload):
    """A message was taken into a turn."""

    message: Message
    turn: int


@dataclass(frozen=True, slots=True)
class InputDiscarded(AgentPayload):
    """A message left the inbox unrun."""

    message: Message


@dataclass(frozen=True, slots=True)
class PrefixRequest(AgentPayload):
    """The messages in front of every request are composed."""


@dataclass(frozen=True, slots=True)
class StepProposal(AgentPayload):
    """A step is proposed with a batch of input, which may be empty after tools ran."""

    messages: tuple[Message, ...]
    turn: int
    step: int
    system: str
    prefix: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class PromptSubmission(AgentPayload):
    """A prompt is about to enter its turn."""

    turn: int
    message: Message


@dataclass(frozen=True, slots=True)
class RequestProposal(AgentPayload):
    """A request is about to be made; the answer says where and how."""

    turn: int
    step: int


@dataclass(frozen=True, slots=True)
class RequestFailure(AgentPayload):
    """A request ended with a failure; `retry_policy` is that of its provider."""

    turn: int
    step: int
    provider: str
    failure: LlmFailure
    retry_policy: RetryPolicy | None


@dataclass(frozen=True, slots=True)
class StepResult(AgentPayload):
    """A message was assembled and is about to be logged."""

    turn: int
    step: int
    message: Message


@dataclass(frozen=True, slots=True)
class Continuation(AgentPayload):
    """A step has ended; `default` is what the loop would do."""

    turn: int
    step: int
    default: Continue | Stop


@dataclass(frozen=True, slots=True)
class StopQuestion(AgentPayload):
    """A step has ended; `continues` tells whether the turn would go on."""

    turn: int
    step: int
    continues: bool


@dataclass(frozen=True, slots=True)
class TurnStopping(AgentPayload):
    """A turn is about to end normally."""

    turn: int


@dataclass(frozen=True, slots=True)
class AgentFailure(AgentPayload):
    """Something failed in the driver of an agent."""

    turn: int
    step: int
    error: Exception
