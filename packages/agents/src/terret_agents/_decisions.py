"""What listeners of the checkpoints decide."""

from collections.abc import Iterable
from dataclasses import dataclass

from terret_llm import Block as ContentBlock
from terret_llm import Message
from terret_sessions import TurnEndReason


@dataclass(frozen=True, slots=True)
class Enter:
    """The proposed step is entered with these messages."""

    messages: tuple[Message, ...]

    def __init__(self, messages: Iterable[Message]) -> None:
        object.__setattr__(self, "messages", tuple(messages))


@dataclass(frozen=True, slots=True)
class Reject:
    """The proposed step is refused and the turn ends blocked."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Allow:
    """The prompt goes on, with other content or with context behind it.

    Attributes:
        content: replaces the content; id and source of the prompt stay.
        additional_context: a message of its own after the prompt.
    """

    content: str | tuple[ContentBlock, ...] | None = None
    additional_context: Message | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """The prompt is taken out of its batch."""

    reason: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The failed request is made again, in the same step."""


@dataclass(frozen=True, slots=True)
class Continue:
    """The turn makes another request; `reason` becomes input of its next step."""

    reason: Message | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """The turn makes no further request, unless steering is pending."""


@dataclass(frozen=True, slots=True)
class TurnStop:
    """The turn ends here whatever is pending, for `reason` if one is given."""

    reason: TurnEndReason | None = None
