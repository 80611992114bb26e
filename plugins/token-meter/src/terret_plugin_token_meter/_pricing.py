from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from pydantic_core import to_json

from terret_llm import Message, ToolSchema


@dataclass(frozen=True, slots=True)
class Pricing:
    """One estimate for everything: so many bytes of JSON are a token."""

    bytes_per_token: float

    def text(self, text: str | None) -> int:
        """A text by itself, such as the system prompt."""
        return self._of(text) if text else 0

    def message(self, message: Message) -> int:
        """A message with all of its blocks, also those of plugins."""
        return sum(self._of(block.to_wire()) for block in message.content)

    def messages(self, messages: Iterable[Message]) -> int:
        """Several messages."""
        return sum(map(self.message, messages))

    def tools(self, tools: Iterable[ToolSchema]) -> int:
        """The schemas of tools."""
        return sum(self._of(tool.to_wire()) for tool in tools)

    def _of(self, value: object) -> int:
        return ceil(len(to_json(value, inf_nan_mode="strings")) / self.bytes_per_token)
