from collections.abc import Callable, Mapping
from typing import ClassVar

from terret_llm import LlmFailure, failure_from_wire, slotted

from ._reading import Fields, present


@slotted
class CancelCause:
    """Who cancelled a turn: kind user, parent, hook (with a reason) or disposed."""

    kind: str
    reason: str | None = None


@slotted
class Completed:
    """Nothing more was owed."""

    kind: ClassVar[str] = "completed"


@slotted
class MaxTokens:
    """At least one step hit its output ceiling."""

    kind: ClassVar[str] = "max-tokens"


@slotted
class Aborted:
    """The turn was cancelled."""

    kind: ClassVar[str] = "aborted"
    cause: CancelCause


@slotted
class Blocked:
    """A step was rejected before it began."""

    kind: ClassVar[str] = "blocked"
    reason: str | None = None


@slotted
class Errored:
    """The turn failed, in `step` if it had got that far."""

    kind: ClassVar[str] = "error"
    failure: LlmFailure
    step: int | None = None


@slotted
class Interrupted:
    """The process ended during the turn; written by repair only."""

    kind: ClassVar[str] = "interrupted"


@slotted
class MaxSteps:
    """A policy's limit of steps was reached."""

    kind: ClassVar[str] = "max-steps"
    limit: int

    @property
    def text(self) -> str:
        """What people read where the answer would stand."""
        calls = "model call" if self.limit == 1 else "model calls"
        return f"Stopped after {self.limit} {calls}, the limit of a turn."


@slotted
class Denied:
    """A policy ended the turn because these tools were denied."""

    kind: ClassVar[str] = "denied"
    tools: tuple[str, ...]

    @property
    def text(self) -> str:
        """What people read where the answer would stand."""
        return f"Stopped: a person denied {', '.join(self.tools)}."


@slotted
class OtherEnd:
    """A kind this version does not know, kept as it is; `data` is the whole JSON object."""

    kind: str
    data: Mapping[str, object]


TurnEndReason = (
    Completed | MaxTokens | Aborted | Blocked | Errored | Interrupted | MaxSteps | Denied | OtherEnd
)


def reason_to_wire(reason: TurnEndReason) -> dict[str, object]:
    """The JSON object of `turn/end`."""
    match reason:
        case Aborted(cause):
            fields = present(reason=present(kind=cause.kind, reason=cause.reason))
        case Blocked(text):
            fields = present(reason=text)
        case Errored(failure, step):
            fields = present(error=failure.to_wire(), step=step)
        case MaxSteps(limit):
            fields = present(limit=limit)
        case Denied(tools):
            fields = present(tools=list(tools))
        case OtherEnd(data=data):
            return dict(data)
        case _:
            fields = {}
    return {"kind": reason.kind, **fields}


def reason_from_wire(data: object) -> TurnEndReason:
    """Read the reason of a `turn/end`; raises ValueError if a known kind is malformed."""
    if not isinstance(data, Mapping) or type(data.get("kind")) is not str:
        raise ValueError("the reason of a turn's end must be an object with a kind")
    read = _READERS.get(data["kind"])
    return OtherEnd(data["kind"], data) if read is None else read(data)


def _completed(data: object) -> TurnEndReason:
    Fields(data, "completed", "kind")
    return Completed()


def _max_tokens(data: object) -> TurnEndReason:
    Fields(data, "max-tokens", "kind")
    return MaxTokens()


def _interrupted(data: object) -> TurnEndReason:
    Fields(data, "interrupted", "kind")
    return Interrupted()


def _aborted(data: object) -> TurnEndReason:
    outer = Fields(data, "aborted", "kind", "reason")
    cause = Fields(outer.get("reason"), "aborted: 'reason'", "kind", "reason")
    return Aborted(CancelCause(cause.text("kind"), cause.maybe_text("reason")))


def _blocked(data: object) -> TurnEndReason:
    return Blocked(Fields(data, "blocked", "kind", "reason").maybe_text("reason"))


def _error(data: object) -> TurnEndReason:
    fields = Fields(data, "error", "kind", "error", "step")
    return Errored(failure_from_wire(fields.get("error")), fields.maybe_count("step", least=1))


def _max_steps(data: object) -> TurnEndReason:
    return MaxSteps(Fields(data, "max-steps", "kind", "limit").count("limit"))


def _denied(data: object) -> TurnEndReason:
    return Denied(Fields(data, "denied", "kind", "tools").texts("tools"))


_READERS: dict[str, Callable[[object], TurnEndReason]] = {
    "completed": _completed,
    "max-tokens": _max_tokens,
    "aborted": _aborted,
    "blocked": _blocked,
    "error": _error,
    "interrupted": _interrupted,
    "max-steps": _max_steps,
    "denied": _denied,
}
