"""The live events of agents. Turn and step boundaries are durable and found in the log only."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final, TypeVar

from terret_context import Bail, Context, Emit, Parallel, Serial, Waterfall
from terret_llm import LlmCallConfig, Message

from ._agent import Agent
from ._decisions import Allow, Block, Continue, Enter, Reject, Retry, Stop, TurnStop
from ._payloads import (
    AgentCreated,
    AgentDisposed,
    AgentFailure,
    AgentPayload,
    Continuation,
    InputClaimed,
    InputDiscarded,
    InputQueued,
    PrefixRequest,
    PromptSubmission,
    RequestFailure,
    RequestProposal,
    SessionStart,
    StatusChange,
    StepProposal,
    StepResult,
    StopQuestion,
    TurnStopping,
)

P = TypeVar("P", bound=AgentPayload)
R = TypeVar("R")
SUBJECT: Final = attrgetter("agent")

CREATED = Bail[AgentCreated, None](
    "agent/created", subject=SUBJECT, doc="An agent is published; an exception refuses it."
)
AGENT_DISPOSED = Emit[AgentDisposed](
    "agent/disposed", subject=SUBJECT, doc="An announced agent left the registry."
)
SESSION_START = Emit[SessionStart](
    "agent/session-start", subject=SUBJECT, doc="An agent starts, once, before its first turn."
)
STATUS = Emit[StatusChange]("agent/status", subject=SUBJECT, doc="An agent became idle or running.")
QUEUED = Emit[InputQueued]("agent/queued", subject=SUBJECT, doc="Input was put into the inbox.")
CLAIMED = Emit[InputClaimed]("agent/claimed", subject=SUBJECT, doc="A turn took input.")
DISCARDED = Emit[InputDiscarded](
    "agent/discarded", subject=SUBJECT, doc="Input left the inbox without being run."
)
SESSION_PREFIX = Waterfall[PrefixRequest, Sequence[Message]](
    "agent/session-prefix",
    subject=SUBJECT,
    doc="Which messages stand in front of every request? Asked once per agent instance.",
)
PRE_STEP = Waterfall[StepProposal, Enter | Reject](
    "agent/pre-step", subject=SUBJECT, doc="Is this step entered, and with which messages?"
)
PROMPT_SUBMIT = Waterfall[PromptSubmission, Allow | Block](
    "agent/prompt-submit", subject=SUBJECT, doc="May this prompt enter its turn?"
)
REQUEST = Waterfall[RequestProposal, LlmCallConfig](
    "agent/request", subject=SUBJECT, doc="Which model answers this request, and how?"
)
REQUEST_ERROR = Waterfall[RequestFailure, Retry | None](
    "agent/request-error", subject=SUBJECT, doc="Is this failed request made again?"
)
STEP_RESULT = Waterfall[StepResult, Message](
    "agent/step-result", subject=SUBJECT, doc="What is logged of this answer of the model?"
)
TURN_CONTINUATION = Waterfall[Continuation, Continue | Stop](
    "agent/turn-continuation", subject=SUBJECT, doc="Does this turn make another request?"
)
TURN_STOP = Serial[StopQuestion, TurnStop](
    "agent/turn-stop", subject=SUBJECT, doc="Must this turn end here, whatever is pending?"
)
TURN_STOPPING = Serial[TurnStopping, None](
    "agent/turn-stopping", subject=SUBJECT, doc="The turn is about to end; it may be steered on."
)
ERROR = Emit[AgentFailure](
    "agent/error", subject=SUBJECT, doc="Something failed, also where the log has no place for it."
)


class AgentEvents:
    """Dispatches events of one agent: the payload names this agent, whatever the caller put."""

    def __init__(self, ctx: Context, agent: Agent) -> None:
        self._ctx = ctx
        self._agent = agent

    def emit(self, event: Emit[P], payload: P) -> None:
        """As `ctx.emit`."""
        self._ctx.emit(event, self._fixed(payload))

    async def parallel(self, event: Parallel[P], payload: P) -> int:
        """As `ctx.parallel`."""
        return await self._ctx.parallel(event, self._fixed(payload))

    def bail(self, event: Bail[P, R], payload: P) -> R | None:
        """As `ctx.bail`."""
        return self._ctx.bail(event, self._fixed(payload))

    async def serial(self, event: Serial[P, R], payload: P) -> R | None:
        """As `ctx.serial`."""
        return await self._ctx.serial(event, self._fixed(payload))

    async def waterfall(
        self, event: Waterfall[P, R], payload: P, inner: Callable[[], R | Awaitable[R]]
    ) -> R:
        """As `ctx.waterfall`."""
        return await self._ctx.waterfall(event, self._fixed(payload), inner)

    def _fixed(self, payload: P) -> P:
        return payload if payload.agent is self._agent else replace(payload, agent=self._agent)


def agent_events(ctx: Context, agent: Agent) -> AgentEvents:
    """Returns a dispatcher whose subject and payload cannot name different agents."""
    return AgentEvents(ctx, agent)
