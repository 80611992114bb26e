from collections.abc import Mapping
from typing import Literal, Self

from terret_llm import (
    Block,
    Message,
    Source,
    block_from_wire,
    message_from_wire,
    slotted,
    source_from_wire,
)

from ._event_types import declare_event_type
from ._headers import EpochHeader, epoch_header_from_wire
from ._reading import Fields, present

HeaderReason = Literal["initial", "resume", "change"]
InboxTarget = Literal["next-turn", "next-step"]


@slotted
class RequestHeader:
    """The header in force from here on, always a full snapshot."""

    header: EpochHeader
    reason: HeaderReason

    def to_wire(self) -> dict[str, object]:
        return {"header": self.header.to_wire(), "reason": self.reason}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "request/header", "header", "reason")
        header = epoch_header_from_wire(read.get("header"))
        return cls(header, read.choice("reason", _HEADER_REASONS))


@slotted
class RequestContext:
    """The route in force from here on, and the size of its window in tokens."""

    provider: str
    model: str
    context_window: int | None = None

    def to_wire(self) -> dict[str, object]:
        return present(provider=self.provider, model=self.model, contextWindow=self.context_window)

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "request/context", "provider", "model", "contextWindow")
        window = read.maybe_count("contextWindow", least=1)
        return cls(read.text("provider"), read.text("model"), window)


@slotted
class InboxSpliced:
    """A change of one of an agent's two input lists."""

    target: InboxTarget
    start: int
    removed_count: int = 0
    inserted: tuple[Message, ...] = ()
    outcome: Literal["canceled"] | None = None

    def to_wire(self) -> dict[str, object]:
        return {
            "target": self.target,
            "start": self.start,
            **present(removedCount=self.removed_count or None),
            "inserted": [message.to_wire() for message in self.inserted],
            **present(outcome=self.outcome),
        }

    @classmethod
    def from_wire(cls, data: object) -> Self:
        keys = ("target", "start", "removedCount", "inserted", "outcome")
        read = Fields(data, "agent/inbox/spliced", *keys)
        return cls(
            read.choice("target", _TARGETS),
            read.count("start"),
            read.maybe_count("removedCount", least=1) or 0,
            tuple(message_from_wire(message) for message in read.items("inserted")),
            read.choice("outcome", _OUTCOMES) if "outcome" in read else None,
        )


@slotted
class PromptBlocked:
    """A policy refused an input message; nothing of it reached the model."""

    content: tuple[Block, ...]
    source: Source
    reason: str
    message_id: str

    def to_wire(self) -> dict[str, object]:
        return {
            "content": [block.to_wire() for block in self.content],
            "source": self.source.to_wire(),
            "reason": self.reason,
            "messageId": self.message_id,
        }

    @classmethod
    def from_wire(cls, data: object) -> Self:
        read = Fields(data, "prompt/blocked", "content", "source", "reason", "messageId")
        return cls(
            tuple(block_from_wire(block) for block in read.items("content")),
            source_from_wire(read.get("source")),
            read.text("reason"),
            read.text("messageId"),
        )


@slotted
class Todo:
    """An item of a task list."""

    content: str
    status: str


@slotted
class TodoWrite:
    """The task list from here on; the last write wins."""

    todos: tuple[Todo, ...]

    def to_wire(self) -> dict[str, object]:
        return {"todos": [{"content": t.content, "status": t.status} for t in self.todos]}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        todos = Fields(data, "todo/write", "todos").items("todos")
        read = (Fields(todo, "todo/write: 'todos'", "content", "status") for todo in todos)
        return cls(tuple(Todo(each.text("content"), each.text("status")) for each in read))


@slotted
class EndSeed:
    """What stands before was given to the session when it was made."""

    def to_wire(self) -> dict[str, object]:
        return {}

    @classmethod
    def from_wire(cls, data: object) -> Self:
        Fields(data, "session/end-seed")
        return cls()


_HEADER_REASONS: Mapping[str, HeaderReason] = {
    "initial": "initial",
    "resume": "resume",
    "change": "change",
}
_TARGETS: Mapping[str, InboxTarget] = {"next-turn": "next-turn", "next-step": "next-step"}
_OUTCOMES: Mapping[str, Literal["canceled"]] = {"canceled": "canceled"}

declare_event_type("request/header", RequestHeader)
declare_event_type("request/context", RequestContext)
declare_event_type("agent/inbox/spliced", InboxSpliced)
declare_event_type("prompt/blocked", PromptBlocked, ignorable=True)
declare_event_type("todo/write", TodoWrite)
declare_event_type("session/end-seed", EndSeed)
