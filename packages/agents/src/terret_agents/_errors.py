"""The errors of the agents package, each with its code."""

from datetime import datetime

from terret_llm import HarnessError


class AgentDisposedError(HarnessError):
    """Something was asked of an agent that is being disposed, or one of whose owners is."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        super().__init__(
            f'the agent "{agent_id}" is disposed: resume its session to go on', "AGENT_DISPOSED"
        )


class AgentBusyError(HarnessError):
    """Maintenance was asked of an agent that is not idle."""

    def __init__(self, agent_id: str, activity: str) -> None:
        self.agent_id = agent_id
        self.activity = activity
        super().__init__(
            f'the agent "{agent_id}" is busy ({activity}): await `when_idle()` first', "AGENT_BUSY"
        )


class AgentExistsError(HarnessError):
    """The id of an agent is taken by a live one."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        super().__init__(
            f'an agent "{agent_id}" is live already: use it, or dispose it first',
            "AGENT_ALREADY_EXISTS",
        )


class NoFactoryError(HarnessError):
    """An agent was asked for and no loop is mounted."""

    def __init__(self) -> None:
        super().__init__(
            "no agent loop is mounted: add `agent-loop`, or a plugin that calls "
            "`ctx[Agents].set_factory(...)`",
            "NO_FACTORY",
        )


class FactoryTakenError(HarnessError):
    """A second loop was registered."""

    def __init__(self, first: str, second: str) -> None:
        self.first = first
        self.second = second
        super().__init__(
            f"{second} cannot be the agent loop, {first} is: remove one of them", "FACTORY_TAKEN"
        )


class NoPersistenceError(HarnessError):
    """A stored session was asked for and nothing keeps sessions."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f'the session "{session_id}" cannot be resumed, nothing keeps sessions: '
            "add a backend such as `session-jsonl`",
            "NO_PERSISTENCE",
        )


class NoInitiatorError(HarnessError):
    """Code that needs to know the agent that caused it runs outside of any agent."""

    def __init__(self) -> None:
        super().__init__(
            "no agent caused this code: run it inside `with ctx[Agents].with_initiator(agent)`",
            "NO_INITIATOR",
        )


class NoSuchAgentError(HarnessError):
    """A label names no agent of the configuration."""

    def __init__(self, label: str, known: tuple[str, ...]) -> None:
        self.label = label
        self.known = known
        listed = ", ".join(known) or "none"
        super().__init__(
            f'no agent "{label}" in the configuration (known: {listed})', "NO_SUCH_AGENT"
        )


class AgentNameTakenError(HarnessError):
    """Two places of a configuration give the same name to an agent."""

    def __init__(self, name: str, first: str, second: str) -> None:
        self.name = name
        self.first = first
        self.second = second
        super().__init__(
            f'the agent name "{name}" is given twice, in {first} and in {second}: rename one',
            "AGENT_NAME_TAKEN",
        )


class MaintenanceAbortedError(HarnessError):
    """A maintenance job was stopped by `cancel`."""

    def __init__(self, agent_id: str, cause: str) -> None:
        self.agent_id = agent_id
        self.cause = cause
        super().__init__(f'maintenance of "{agent_id}" was cancelled ({cause})', "ABORTED")


class InquiryClosedError(HarnessError):
    """An item was answered that is not open any more; nothing was changed.

    `session_id` is the session of the root agent behind it.
    """

    def __init__(self, item_id: str, outcome: str, at: datetime, session_id: str) -> None:
        self.item_id = item_id
        self.outcome = outcome
        self.at = at
        self.session_id = session_id
        super().__init__(f"{item_id} is decided already: {outcome}", "ALREADY_DECIDED")


class UnknownInquiryError(HarnessError):
    """No log has an item of that id."""

    def __init__(self, kind: str, item_id: str) -> None:
        self.kind = kind
        self.item_id = item_id
        super().__init__(f'there is no {kind} "{item_id}"', "UNKNOWN_ITEM")


class DuplicateInputError(HarnessError):
    """A message that is pending already was put into an inbox again."""

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        super().__init__(f'the message "{message_id}" is pending already', "DUPLICATE_INPUT")


class InboxSpliceError(HarnessError):
    """A log holds a change of an inbox that is impossible at its place."""

    def __init__(self, seq: int, reason: str) -> None:
        self.seq = seq
        self.reason = reason
        super().__init__(f"impossible inbox splice at seq {seq}: {reason}", "INVALID_SPLICE")


class RequestInvariantError(HarnessError):
    """A loop made a request that the log does not explain."""

    def __init__(self, session_id: str | None, reason: str) -> None:
        self.session_id = session_id
        self.reason = reason
        super().__init__(
            f'a request of session "{session_id}" cannot be rebuilt: {reason}', "REQUEST_INVARIANT"
        )
