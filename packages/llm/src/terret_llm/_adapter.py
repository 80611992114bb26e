from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ._events import Chunks
from ._models import ModelInfo, ProviderInfo
from ._requests import GenerateOptions, LlmCallConfig
from ._retry_policy import RetryPolicy


@dataclass(frozen=True, slots=True)
class BoundCall:
    """Metadata and dispatch of one call, taken from the same settings of the adapter."""

    model: ModelInfo
    stream: Callable[[GenerateOptions], Chunks]


class LlmAdapter(ABC):
    """Translates between Terret's vocabulary and one provider's wire. Only `stream` is required."""

    @abstractmethod
    def stream(self, request: GenerateOptions) -> Chunks:
        """Run one request; an async generator that ends with exactly one finish chunk.

        It may raise, best an `LlmError`, before the first chunk or between two: the runtime makes
        a finish of it. Cancellation must pass. The generator is closed when its consumer stops
        early, so cleanup belongs in `finally` or `async with`. It must not yield inside a cancel
        scope or a task group: a time limit goes around one read and ends before the yield.
        """

    def provider_info(self, provider: str) -> ProviderInfo:
        """How lists show the provider; asked once, at registration."""
        return ProviderInfo(provider)

    def retry_policy(self, provider: str) -> RetryPolicy | None:
        """When failed calls may be repeated; asked once, at registration. None: never."""
        return RetryPolicy()

    def default_model(self, provider: str) -> str | None:
        """The model of calls that name none."""
        return None

    async def list_models(self, provider: str) -> Sequence[ModelInfo]:
        """Models to offer to a person. Advice: a model that is not listed may work."""
        return ()

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        """What is known of exactly that model. Raises if it cannot be used."""
        return ModelInfo(id=model)

    async def prepare_call(self, config: LlmCallConfig) -> BoundCall:
        """Bind metadata and dispatch, for adapters whose settings change while they run."""
        return BoundCall(await self.resolve_model(config.provider, config.model), self.stream)
