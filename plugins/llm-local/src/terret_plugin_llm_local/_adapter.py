from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Literal, TypeVar

import anyio
import anyio.to_thread

from terret_llm import (
    Chunks,
    GenerateOptions,
    LlmAdapter,
    LlmError,
    LlmFailure,
    ModelInfo,
    ModelLoading,
    ProviderInfo,
    RetryPolicy,
)

from ._chat import LocalChat
from ._config import LlmLocalConfig
from ._guide import guided
from ._server import ModelServer, ServerSettings, shared_server
from ._weights import model_file, model_name

T = TypeVar("T")


class LocalAdapter(LlmAdapter):
    """Answers requests with a model that runs inside this process.

    The model is loaded by the first request, and shared with every adapter of the process that
    uses the same file with the same settings. `loading` is told when that starts and how it ends.
    """

    def __init__(self, config: LlmLocalConfig, *, loading: Callable[[ModelLoading], None]) -> None:
        self._config = config
        self._loading = loading
        self._model = config.model or model_name(config.model_path)
        self._starting = anyio.Lock()
        self._threads = anyio.CapacityLimiter(1)
        self._running: list[ModelServer] = []
        self._chat: LocalChat | None = None
        self._closed = False

    def provider_info(self, provider: str) -> ProviderInfo:
        """The provider with a title for lists."""
        return ProviderInfo(provider, f"{self._model} (in this process)")

    def retry_policy(self, provider: str) -> RetryPolicy | None:
        """None: what failed here once fails again."""
        return None

    def default_model(self, provider: str) -> str | None:
        """The one model there is."""
        return self._model

    async def list_models(self, provider: str) -> Sequence[ModelInfo]:
        """The one model there is."""
        return (self._info(self._model),)

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        """The settings of the model, under any name: a mount has one model."""
        return self._info(model)

    async def stream(self, request: GenerateOptions) -> Chunks:
        """Run one request; requests of one model are answered one after the other.

        Raises LlmError: UNKNOWN_MODEL if the model cannot be loaded, CONTEXT_WINDOW_EXCEEDED,
        TRANSPORT if the adapter is closed meanwhile.
        """
        chat = await self._ready()
        request = self._with_defaults(request)
        native = self._config.tool_calls == "native"
        answer = chat.stream(request) if native else await guided(chat, request)
        async with aclosing(answer) as chunks:
            async for chunk in chunks:
                yield chunk

    async def aclose(self) -> None:
        """End what is being generated, let go of the model, and refuse further requests."""
        async with self._starting:
            self._closed = True
            chat, self._chat = self._chat, None
        if chat is not None:
            await chat.aclose()
            # The last user of a server stops it, which waits for its threads.
            await self._in_thread(self._running.clear)

    async def _ready(self) -> LocalChat:
        async with self._starting:
            if self._closed:
                text = "the local model was unmounted; mount llm-local again"
                raise LlmError(LlmFailure(text, "TRANSPORT"))
            if self._chat is None:
                server = await self._load()
                self._running.append(server)
                self._chat = LocalChat(server.url, key=server.key, seed=self._config.seed)
            return self._chat

    async def _load(self) -> ModelServer:
        path = model_file(self._config.model_path)
        settings = ServerSettings(path, self._config.threads, self._config.context_size)
        self._announce("started")
        try:
            server = await self._in_thread(lambda: shared_server(settings))
        except Exception:
            self._announce("failed")
            raise
        self._announce("ready")
        return server

    async def _in_thread(self, block: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(block, abandon_on_cancel=True, limiter=self._threads)

    def _announce(self, state: Literal["started", "ready", "failed"]) -> None:
        self._loading(ModelLoading(self._config.provider, self._model, state))

    def _with_defaults(self, request: GenerateOptions) -> GenerateOptions:
        config = self._config
        temperature, limit = request.temperature, request.max_tokens
        return replace(
            request,
            temperature=config.temperature if temperature is None else temperature,
            max_tokens=config.max_tokens if limit is None else limit,
        )

    def _info(self, model: str) -> ModelInfo:
        return ModelInfo(
            id=model,
            context_window=self._config.context_size,
            max_tokens=self._config.max_tokens,
            reasoning_efforts=(),
        )
