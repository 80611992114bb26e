"""What every loop's agent has: admission, inbox, status, a driver in a context of its own."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import final

from terret_context import Context, Fiber, TaskHandle
from terret_llm import Message, Source, create_user_message, message_from_wire
from terret_sessions import Session, copy_json

from ._agent import Agent, AgentOptions, Status
from ._errors import AgentDisposedError
from ._events import CLAIMED, DISCARDED, QUEUED, STATUS
from ._inbox import Inbox, Target
from ._initiator import clear_initiator
from ._payloads import InputClaimed, InputDiscarded, InputQueued, StatusChange


class AgentBase(Agent):
    """The rules of 9.1 that hold whatever drives the agent.

    `publish_agent` gives the agent its scoped context and its owners, calls `start_driver` once
    it is published, and ends it through `cancel` and `when_idle`.
    """

    def __init__(self, ctx: Context, session: Session, options: AgentOptions | None = None) -> None:
        self.ctx = ctx
        self.session = session
        self.options = options or AgentOptions()
        self.inbox = Inbox(session, _Announcer(self))
        self.context = copy_context()
        self._owners: tuple[Fiber, ...] = ()
        self._ended = False
        self._status: Status = "idle"

    @property
    @final
    def status(self) -> Status:
        """`"running"` while a driver works; maintenance reads as `"idle"`."""
        return self._status

    @property
    @final
    def disposed(self) -> bool:
        """`True` from the moment an owner stops or the teardown begins."""
        return self._ended or any(owner.ends or not owner.admits for owner in self._owners)

    @final
    def admit(self) -> None:
        """Raises `AgentDisposedError` when nothing may be accepted any more."""
        if self.disposed or not self.ctx.fiber.admits:
            raise AgentDisposedError(self.id)

    @final
    def accept(self, message: str | Message, source: Source | None = None) -> Message:
        """Returns input as the record that log and inbox share.

        Raises `LosslessJsonError` or `ValueError` for what must not enter the log.
        """
        if isinstance(message, str):
            return create_user_message(message, source)
        if source is not None:
            raise TypeError("a Message has its own source; `source` belongs to a text")
        if message.role != "user":
            raise ValueError(f"input has the role user, not {message.role}")
        return message_from_wire(copy_json(message.to_wire()))

    @final
    def spawn_driver(self, fn: Callable[[], Awaitable[None]]) -> TaskHandle:
        """Starts a task of the agent's scope in the context the agent was created with.

        The task runs after the caller's next checkpoint. Raises `InactiveFiberError`, and starts
        nothing, when the scope no longer admits effects.
        """
        return self.context.copy().run(self.ctx.spawn, fn, name="driver")

    @final
    def set_status(self, status: Status) -> None:
        """Changes the status and announces it, unless it is that already."""
        if status != self._status:
            self._status = status
            self.ctx.emit(STATUS, StatusChange(self, status))

    @abstractmethod
    def start_driver(self) -> None:
        """Called once, when the agent is published: input accepted before may run now."""

    # The two ends of a life, for publish_agent only.
    def _bind(self, ctx: Context, owners: tuple[Fiber, ...]) -> None:
        self.ctx = ctx
        self.context = copy_context()
        self.context.run(clear_initiator)
        self._owners = owners

    def _end(self) -> None:
        self._ended = True


class _Announcer:
    """Tells the world of changes of an agent's inbox."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def queued(self, message: Message, target: Target, wake: bool) -> None:
        self._agent.ctx.emit(QUEUED, InputQueued(self._agent, message, target, wake))

    def claimed(self, message: Message, turn: int) -> None:
        self._agent.ctx.emit(CLAIMED, InputClaimed(self._agent, message, turn))

    def discarded(self, message: Message) -> None:
        self._agent.ctx.emit(DISCARDED, InputDiscarded(self._agent, message))
