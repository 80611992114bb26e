"""Small folds over a log whose state is JSON of constant size."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, final

from pydantic.alias_generators import to_camel, to_snake

from terret_llm import FinishChunk, Message, Usage, UsageChunk
from terret_sessions import (
    AssistantChunk,
    AssistantMessage,
    ContextBreakdown,
    ContextPressure,
    RequestContext,
    SessionEvent,
    TokenUsage,
    ToolResult,
)

from ._surface import Change, prompt_tokens


class Projection(ABC):
    """A fold that can be put aside as JSON and taken up again."""

    @abstractmethod
    def take(self, event: SessionEvent, change: Change) -> None:
        """Take the next event and what it does to the surface. Raises ValueError, unchanged."""

    @abstractmethod
    def state(self) -> dict[str, object]:
        """Everything it knows, as JSON."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Know what `state` says. Raises ValueError or TypeError if it is malformed."""


@final
class UsageProjection(Projection):
    """Adds up what requests cost.

    Within an attempt a later count replaces an earlier one. A message repeats the count of the
    attempt that it was made of, and adds nothing.
    """

    def __init__(self) -> None:
        self._done = TokenUsage()
        self._sample: Usage | None = None
        self._is_open = False

    @property
    def value(self) -> TokenUsage:
        return self._done if self._sample is None else _added(self._done, self._sample)

    def take(self, event: SessionEvent, change: Change) -> None:
        view = event.view
        if isinstance(view, AssistantChunk):
            if isinstance(view.chunk, UsageChunk):
                self._sample, self._is_open = view.chunk.usage, True
            elif isinstance(view.chunk, FinishChunk):
                self._is_open = False
            elif not self._is_open:
                self._close()
        elif isinstance(view, AssistantMessage):
            if event.surface_op == "append" and self._sample is None:
                self._sample = view.usage
            self._close()

    def state(self) -> dict[str, object]:
        sample = None if self._sample is None else self._sample.to_wire()
        return {"done": _camel(self._done), "sample": sample, "isOpen": self._is_open}

    def restore(self, state: Mapping[str, Any]) -> None:
        sample = state["sample"]
        usage = None if sample is None else Usage(**_counts(sample))
        self._done, self._sample = TokenUsage(**_counts(state["done"])), usage
        self._is_open = bool(state["isOpen"])

    def _close(self) -> None:
        """A further attempt begins: what the last one cost is settled."""
        self._done, self._sample, self._is_open = self.value, None, False


@final
class PressureProjection(Projection):
    """Knows the last count of a prompt, and the window of the model that is asked now."""

    def __init__(self) -> None:
        self._used: int | None = None
        self._capacity: int | None = None

    @property
    def value(self) -> ContextPressure | None:
        used, capacity = self._used, self._capacity
        if used is None:
            return None
        ratio = min(used / capacity, 1.0) if capacity else None
        return ContextPressure(used, capacity, ratio)

    def take(self, event: SessionEvent, change: Change) -> None:
        view = event.view
        usage: Usage | None = None
        if isinstance(view, RequestContext):
            self._capacity = view.context_window
        elif isinstance(view, AssistantChunk) and isinstance(view.chunk, UsageChunk):
            usage = view.chunk.usage
        elif isinstance(view, AssistantMessage) and event.surface_op == "append":
            usage = view.usage
        if usage is not None:
            self._used = prompt_tokens(usage)

    def state(self) -> dict[str, object]:
        return {"used": self._used, "capacity": self._capacity}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._used, self._capacity = _optional(state, "used"), _optional(state, "capacity")


@final
class BreakdownProjection(Projection):
    """Sums up the newest header and the surface by who speaks."""

    def __init__(self) -> None:
        self.value = ContextBreakdown()

    def take(self, event: SessionEvent, change: Change) -> None:
        if change.header is not None:
            system, tools, prefix = change.header
            self.value = replace(self.value, system=system, tools=tools, prefix=prefix)
        if change.added is None:
            return
        sums = asdict(self.value)
        for node, price in change.removed:
            sums[_speaker(node)] -= price
        sums[_speaker(change.added[0])] += change.added[1]
        if min(sums.values()) < 0:
            raise ValueError(f"event {event.seq} removes more than there was: another log's state")
        self.value = ContextBreakdown(**sums)

    def state(self) -> dict[str, object]:
        return _camel(self.value)

    def restore(self, state: Mapping[str, Any]) -> None:
        self.value = ContextBreakdown(**_counts(state))


def _speaker(node: SessionEvent) -> str:
    if isinstance(node.view, ToolResult):
        return "tool_results"
    is_answer = isinstance(node.view, AssistantMessage) or (
        isinstance(node.view, Message) and node.view.role == "assistant"
    )
    return "assistant" if is_answer else "user"


def _added(done: TokenUsage, usage: Usage) -> TokenUsage:
    return TokenUsage(
        done.requests + 1,
        done.input_tokens + usage.input_tokens,
        done.output_tokens + usage.output_tokens,
        done.cache_read_tokens + (usage.cache_read_tokens or 0),
        done.cache_write_tokens + (usage.cache_write_tokens or 0),
        done.reasoning_tokens + (usage.reasoning_tokens or 0),
    )


def _camel(value: Any) -> dict[str, object]:
    return {to_camel(key): each for key, each in asdict(value).items()}


def _counts(state: Mapping[str, Any]) -> dict[str, int]:
    counts = {to_snake(key): value for key, value in state.items()}
    if not all(type(value) is int and value >= 0 for value in counts.values()):
        raise ValueError(f"counts must be whole numbers, not {state!r:.80}")
    return counts


def _optional(state: Mapping[str, Any], key: str) -> int | None:
    value = state[key]
    return None if value is None else _counts({"value": value})["value"]
