"""The surface of a log with the price of each node, and the provider's count it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from terret_llm import Message, Usage
from terret_sessions import (
    AssistantMessage,
    EpochHeader,
    Measurement,
    RequestHeader,
    SessionEvent,
    Surface,
    derived_message,
)

from ._pricing import Pricing


@dataclass(frozen=True, slots=True)
class Change:
    """What an event does; `removed` and `added` hold nodes of the surface and their prices."""

    place: slice | None = None
    removed: tuple[tuple[SessionEvent, int], ...] = ()
    added: tuple[SessionEvent, int] | None = None
    header: tuple[int, int, int] | None = None
    """The prices of system prompt, tools and prefix, if the header is another one now."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A provider's count, and the price of the surface that it covered."""

    tokens: int
    covered: int


class PricedSurface:
    """Follows the surface of one log."""

    def __init__(self, pricing: Pricing) -> None:
        self._pricing = pricing
        self._header_prices = (0, 0, 0)
        self._surface = Surface()
        self._prices: list[int] = []
        self._total = 0
        self._header: EpochHeader | None = None
        self._anchor: _Anchor | None = None

    def plan(self, event: SessionEvent) -> Change:
        """What the event will change; changes nothing. Raises SurfaceError."""
        view = event.view
        if isinstance(view, RequestHeader) and view.header != self._header:
            return Change(header=self._priced(view.header))
        place = self._surface.plan(event)
        if place is None:
            return Change()
        message = derived_message(event)
        price = 0 if message is None else self._pricing.message(message)
        nodes, prices = self._surface.nodes[place], self._prices[place]
        return Change(place, tuple(zip(nodes, prices, strict=True)), (event, price))

    def commit(self, event: SessionEvent, change: Change) -> None:
        """Apply what was planned for the event."""
        view = event.view
        if change.header is not None and isinstance(view, RequestHeader):
            self._header, self._anchor = view.header, None
            self._header_prices = change.header
        if change.place is None or change.added is None:
            return
        self._surface.commit(event, change.place)
        self._prices[change.place] = (change.added[1],)
        self._total += change.added[1] - sum(price for _, price in change.removed)
        usage = view.usage if isinstance(view, AssistantMessage) else None
        if usage is not None and event.surface_op == "append" and prompt_tokens(usage):
            tokens = prompt_tokens(usage) + usage.output_tokens
            self._anchor = _Anchor(tokens, self._total)

    def measure(self, replaced: Mapping[int, Sequence[Message]]) -> Measurement:
        """The price of everything, as if some nodes were replaced."""
        seqs = self._surface.seqs
        total = sum(self._header_prices) + self._total
        if replaced:
            prices = dict(zip(seqs, self._prices, strict=True))
            missing = replaced.keys() - prices.keys()
            if missing:
                raise ValueError(f"there is no node {min(missing)} on the surface")
            for seq, messages in replaced.items():
                total += self._pricing.messages(messages) - prices[seq]
        counted = None if replaced else self._counted()
        surface = tuple(zip(seqs, self._prices, strict=True))
        whole = total if counted is None else counted
        return Measurement(whole, *self._header_prices, surface, counted is not None)

    def _counted(self) -> int | None:
        """The provider's count and the price of what changed since; None if that makes no sense."""
        anchor = self._anchor
        if anchor is None:
            return None
        change = self._total - anchor.covered
        return None if anchor.tokens + min(change, 0) <= 0 else anchor.tokens + change

    def _priced(self, header: EpochHeader) -> tuple[int, int, int]:
        pricing = self._pricing
        return (
            pricing.text(header.system),
            pricing.tools(header.tools),
            pricing.messages(header.message_prefix),
        )


def prompt_tokens(usage: Usage) -> int:
    """All tokens that the model read; the buckets are disjoint."""
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    return usage.input_tokens + read + written
