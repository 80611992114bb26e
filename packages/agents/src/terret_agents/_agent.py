"""The interface of an agent: what callers hold and loops provide."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar, final

from terret_context import Context
from terret_llm import Message, Source
from terret_sessions import CancelCause, Session

from ._inbox import Inbox, Target

T = TypeVar("T")

Status: TypeAlias = Literal["idle", "running"]

USER: Final = CancelCause("user")
"""A person stopped the turn."""
PARENT: Final = CancelCause("parent")
"""The agent for which this one works was stopped."""
DISPOSED: Final = CancelCause("disposed")
"""The agent is taken down."""


def hook(reason: str) -> CancelCause:
    """Returns the cause of a turn that a plugin stopped."""
    return CancelCause("hook", reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """What an agent is created with. Raises `ValueError` for a cap below 1.

    Attributes:
        provider: the route of its requests; may also come from `agent/request`.
        model: the model; left out, the adapter's default.
        max_tokens: the output cap of each request.
        max_parallel_tool_calls: how many tool bodies may overlap; left out, the loop decides.
    """

    provider: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    max_parallel_tool_calls: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_parallel_tool_calls"):
            cap = getattr(self, name)
            if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
                raise ValueError(f"{name} is a whole number from 1, not {cap!r}")


class Agent(ABC):
    """A live agent: one session, one inbox, one driver that runs turns while there is work.

    The agent is the scope key of its own context: what is registered through `agent.ctx` is this
    agent's alone and goes with it.
    """

    session: Session
    options: AgentOptions
    ctx: Context
    inbox: Inbox

    @property
    @final
    def id(self) -> str:
        """The one identity: that of the session."""
        return self.session.id

    @property
    @final
    def name(self) -> str:
        """What people call it: the preset it was made from, else its id."""
        return self.session.header.agent_preset or self.id

    @property
    @abstractmethod
    def status(self) -> Status:
        """`"running"` while a driver works; maintenance reads as `"idle"`."""

    @property
    @abstractmethod
    def disposed(self) -> bool:
        """`True` from the moment an owner stops or the teardown begins."""

    @abstractmethod
    def send(
        self,
        message: str | Message,
        target: Target = "next-turn",
        wake: bool = True,
        *,
        source: Source | None = None,
    ) -> Message:
        """Accepts input, logs it and returns it; with `wake`, a turn is open on return.

        Raises, before anything is logged: `AgentDisposedError`; `DuplicateInputError` for an id
        that is pending; `LosslessJsonError` or `ValueError` for content that JSON cannot hold.
        `source` is that of a text; a `Message` has its own.
        """

    @final
    def followup(self, message: str | Message, *, source: Source | None = None) -> Message:
        """Sends a prompt: it gets a turn of its own."""
        return self.send(message, "next-turn", source=source)

    @final
    def steer(self, message: str | Message, *, source: Source | None = None) -> Message:
        """Sends input for the next step of the running turn, or opens a turn with it."""
        return self.send(message, "next-step", source=source)

    @final
    def inject(self, message: str | Message, *, source: Source | None = None) -> Message:
        """Adds context for the next step, whenever that is; never opens a turn."""
        return self.send(message, "next-step", False, source=source)

    @abstractmethod
    def cancel(self, cause: CancelCause, keep_inbox: bool = False) -> None:
        """Stops the running turn or maintenance and discards pending input.

        Returns at once; `when_idle` tells when it took effect. The first cause stays. With
        `keep_inbox` pending input waits for the next wake; what was claimed is not restored.
        """

    @abstractmethod
    async def when_idle(self) -> None:
        """Returns when neither driver nor maintenance is active, replacement work included.

        What a turn awaits, such as a tool of the agent, must not wait for its own agent here.
        """

    @abstractmethod
    async def run_maintenance(self, job: Callable[[], Awaitable[T]]) -> T:
        """Runs a job while the agent is idle; waking input waits behind it.

        Raises `AgentBusyError`, `AgentDisposedError`, or `MaintenanceAbortedError` if `cancel`
        stopped the job.
        """
