"""What policies answer, and the seam of approvals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from terret_context import ServiceKey
from terret_llm import Block as ContentBlock
from terret_llm import Message

from ._calls import ToolExec
from ._errors import DENIED


class _Unset:
    """Stands for a value that was not given, where `None` is one."""

    def __repr__(self) -> str:
        return "(unset)"


UNSET: Final = _Unset()


ApprovalWord: TypeAlias = Literal[
    "allowed-once", "rejected", "cancelled", "unavailable", "timed-out"
]
GroundsSource: TypeAlias = Literal[
    "rule", "default", "system", "validation", "guard", "hook", "human", "timeout"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalOutcome:
    """How an ask ended; `arguments` are those of the call if they were edited.

    `id` names the question in the log, `by` who answered it.
    """

    outcome: ApprovalWord
    id: str | None = None
    arguments: object | None = None
    by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What a decision rests on: for records only, nothing that happens depends on it.

    Attributes:
        source: What kind of thing decided.
        reason: Why, in words that need no context.
        rule: The name of the rule that decided, if one did.
        approval: How a person was asked, if one was.
    """

    source: GroundsSource
    reason: str
    rule: str | None = None
    approval: ApprovalOutcome | None = None


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may run, as far as this listener is concerned; tool guards may still deny it."""

    grounds: Grounds | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """The call does not run; the model reads the reason."""

    reason: str
    code: str = DENIED
    data: Mapping[str, object] | None = None
    grounds: Grounds | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody has to approve the call; without an approval service that is a denial.

    `editable` lets whoever approves change the arguments; `data` is for the one who is asked.
    """

    reason: str | None = None
    grounds: Grounds | None = None
    editable: bool = False
    data: Mapping[str, object] | None = None


Decision: TypeAlias = Allow | Deny | Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """The result stands, with another content, or with another value that is rendered again."""

    content: str | Iterable[ContentBlock] | None = None
    value: object = UNSET
    additional_contexts: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """The result does not reach the model; it reads the feedback as an error instead.

    Contexts that the body deferred are dropped.
    """

    feedback: str | Iterable[ContentBlock]
    additional_contexts: tuple[Message, ...] = ()


PostDecision: TypeAlias = Accept | Block


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecision:
    """What somebody decided about a call.

    Attributes:
        allow: whether the call may run.
        args: other arguments for it, where the item is editable.
        note: what the model reads of a denial.
        by: who decided.
        remember: whether the same call may run for the rest of the session without being asked
            about; for allowed calls.
    """

    allow: bool
    args: Mapping[str, object] | None = None
    note: str | None = None
    by: str | None = None
    remember: bool = False


class Approval(Protocol):
    """The service that asks a person, or a rule that stands in for one."""

    async def request(self, exec: ToolExec, ask: Ask) -> ApprovalOutcome:
        """Asks and waits. When the caller is cancelled it withdraws the question and ends."""
        ...


APPROVAL: ServiceKey[Approval] = ServiceKey("approval")
