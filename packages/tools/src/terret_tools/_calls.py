"""One call: as policies see it, and as its body sees it."""

from dataclasses import dataclass, field
from types import MappingProxyType

from terret_agents import Agent
from terret_llm import Message
from terret_sessions import LosslessJsonError, check_json

from ._json import freeze, thaw


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolExec:
    """A call, as every policy sees it: frozen, its arguments included.

    `arguments` is the JSON value of the model's text, or the text itself where that is no JSON.
    It is copied: mappings become read-only, lists tuples. `parent` is the call whose body makes
    this one. `token` stays the same for the whole life of a call.
    """

    call_id: str
    name: str
    arguments: object = field(default_factory=dict)
    agent: Agent | None = None
    parent: "ToolExec | None" = None
    token: object = field(default_factory=object, repr=False)
    fault: str | None = field(default=None, init=False, repr=False)
    """Why the arguments are no lossless JSON value; such a call fails before any phase."""

    def __post_init__(self) -> None:
        if not self.call_id:
            raise ValueError("a tool call needs an id")
        try:
            plain = thaw(self.arguments)
            check_json(plain)
            frozen = freeze(plain)
        except (LosslessJsonError, RecursionError) as error:
            object.__setattr__(self, "fault", str(error) or "nested too deeply")
            frozen = MappingProxyType({})
        object.__setattr__(self, "arguments", frozen)

    @property
    def root_call_id(self) -> str:
        """The id of the outermost call, which a model made."""
        return self.call_id if self.parent is None else self.parent.root_call_id

    def plain_arguments(self) -> object:
        """Returns a copy of the arguments made of plain dicts and lists."""
        return thaw(self.arguments)


class ToolRun:
    """A call, as its body sees it."""

    __slots__ = ("_cancelled", "_concludes", "_contexts", "_exec")

    def __init__(self, exec: ToolExec) -> None:
        self._exec = exec
        self._cancelled = False
        self._concludes = False
        self._contexts: list[Message] = []

    @property
    def exec(self) -> ToolExec:
        """The call, for instance as `parent` of a nested one."""
        return self._exec

    @property
    def call_id(self) -> str:
        return self._exec.call_id

    @property
    def root_call_id(self) -> str:
        return self._exec.root_call_id

    @property
    def name(self) -> str:
        return self._exec.name

    @property
    def arguments(self) -> object:
        """The arguments as the call was made with them, read-only."""
        return self._exec.arguments

    @property
    def agent(self) -> Agent | None:
        return self._exec.agent

    @property
    def parent(self) -> ToolExec | None:
        return self._exec.parent

    @property
    def token(self) -> object:
        return self._exec.token

    @property
    def cancelled(self) -> bool:
        """Whether a plain function should end; may be read in any thread.

        A coroutine function gets the cancellation raised inside itself instead.
        """
        return self._cancelled

    @property
    def contexts(self) -> tuple[Message, ...]:
        """The messages deferred so far."""
        return tuple(self._contexts)

    @property
    def concludes(self) -> bool:
        return self._concludes

    def defer_context(self, message: Message) -> None:
        """Gives the model a message of its own after the results of this step."""
        self._contexts.append(message)

    def conclude_turn(self) -> None:
        """Ends the turn with this call, if the call succeeds: no further request is owed."""
        self._concludes = True

    def mark_cancelled(self) -> None:
        """Tells a plain function that it should end."""
        self._cancelled = True
