from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from terret_context import Emit, Waterfall

from ._chunks import Chunk
from ._requests import GenerateOptions

Chunks: TypeAlias = AsyncGenerator[Chunk, None]
"""A stream of chunks. Whoever iterates it closes it: `async with aclosing(chunks)`."""


@dataclass(frozen=True, slots=True)
class AdaptersUpdated:
    """The providers that have an adapter now."""

    providers: tuple[str, ...]


STREAM: Final = Waterfall[GenerateOptions, Chunks](
    "llm/stream",
    doc="A request goes to a model; a listener may wrap its chunks or serve it by itself.",
)
ADAPTERS_UPDATED: Final = Emit[AdaptersUpdated](
    "llm/adapters-updated",
    doc="Adapters were registered, replaced or withdrawn.",
)


@dataclass(frozen=True, slots=True)
class ModelLoading:
    """A model is being loaded into this process, is ready, or could not be loaded."""

    provider: str
    model: str
    state: Literal["started", "ready", "failed"]


LOADING: Final = Emit[ModelLoading](
    "llm/loading",
    doc="A model is being loaded into this process for the first request, is ready, or failed.",
)
