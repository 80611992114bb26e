from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Generic, TypeVar

from terret_llm._models import ModelInfo
from terret_llm._requests import GenerateOptions
from terret_llm.settings import ServerSettings
from terret_llm.wire import Decoder, ProviderErrors

S = TypeVar("S", bound=ServerSettings)
D = TypeVar("D", bound=Decoder)


class HttpWire(ABC, Generic[S, D]):
    """One server's protocol with one set of settings: requests to bytes, answers to chunks."""

    path: ClassVar[str]
    """Where requests go, behind the base address."""
    models_path: ClassVar[str] = "models"
    """Where the server lists its models."""
    distribution: ClassVar[str]
    """The distribution that the user agent names."""

    def __init__(self, settings: S) -> None:
        self.settings = settings

    @abstractmethod
    def encode(self, request: GenerateOptions) -> bytes:
        """The body of a request. Model, cap, stops and effort are filled in already."""

    @abstractmethod
    def decoder(self, request: GenerateOptions, errors: ProviderErrors) -> D:
        """What turns the answer of a request into chunks."""

    def headers(self) -> Mapping[str, str]:
        """Headers of every request that the protocol asks for, with lower-case names."""
        return {}

    @abstractmethod
    def key_headers(self, key: str) -> Mapping[str, str]:
        """The headers that carry the key."""

    def resumed(self, request: GenerateOptions, decoder: D) -> bytes | None:
        """The body of the request that lets the model go on, if it only paused; None: it ended.

        Asked when an answer is over. The same decoder takes the answer of that request.
        """
        return None

    def models(self, listed: Iterable[Mapping[str, object]]) -> list[ModelInfo]:
        """The entries of the server's list of models, as far as they can be read."""
        return [self.settings.model_info(each["id"]) for each in listed if _has_id(each)]  # type: ignore[arg-type]  # checked


def _has_id(entry: Mapping[str, object]) -> bool:
    return isinstance(entry.get("id"), str)
