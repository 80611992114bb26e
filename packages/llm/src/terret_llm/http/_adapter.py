from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote_plus

import anyio
import httpx2

from terret_context import Context
from terret_llm._adapter import BoundCall, LlmAdapter
from terret_llm._chunks import Chunk, FinishChunk
from terret_llm._credentials import user_agent
from terret_llm._errors import LlmError
from terret_llm._events import Chunks
from terret_llm._models import ModelInfo, completed
from terret_llm._requests import GenerateOptions, LlmCallConfig
from terret_llm._retry_policy import RetryPolicy
from terret_llm.settings import ServerSettings
from terret_llm.wire import AnswerStream, ProviderErrors, parse_json

from ._clients import ClientPool
from ._exchange import Exchange
from ._failures import broken, refused, silent
from ._keys import KeySource
from ._sending import new_request, sent
from ._wire import HttpWire

_SHORTEST_SECRET = 8
_LIST_SECONDS = 30.0


class _Server:
    """One generation of settings, and what was made of them."""

    def __init__(self, wire: HttpWire[Any, Any]) -> None:
        self.wire = wire
        self.settings: ServerSettings = wire.settings
        self.keys = KeySource(wire.settings)
        self._headers = {
            "user-agent": user_agent(wire.distribution),
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
            **wire.headers(),
        }

    def headers(self, key: str | None, request: GenerateOptions | None = None) -> dict[str, str]:
        settings = self.settings
        headers = self._headers | dict({} if key is None else self.wire.key_headers(key))
        if request is not None:
            if settings.session_header and request.session_id:
                headers[settings.session_header.lower()] = request.session_id
            if settings.purpose_header and request.purpose:
                headers[settings.purpose_header.lower()] = request.purpose
        return headers | {
            name.lower(): value.get_secret_value() for name, value in settings.headers.items()
        }

    def errors(self, key: str | None) -> ProviderErrors:
        headers = (value.get_secret_value() for value in self.settings.headers.values())
        secrets = [value for value in (key, *headers) if value and len(value) >= _SHORTEST_SECRET]
        return ProviderErrors(self.settings.place, (*secrets, *map(quote_plus, secrets)))

    def completed(self, request: GenerateOptions) -> GenerateOptions:
        """The request with the defaults of its model; refuses an effort that is not offered."""
        settings = self.settings
        info = settings.model_info(request.model or settings.model or "")
        config, _ = completed(request.config, info)
        temperature, stop = config.temperature, config.stop
        return replace(
            request,
            model=info.id,
            reasoning_effort=config.reasoning_effort,
            max_tokens=config.max_tokens,
            temperature=settings.temperature if temperature is None else temperature,
            stop=settings.stop if stop is None else stop,
        )


class HttpAdapter(LlmAdapter):
    """Serves one provider through its wire. Settings may change between two requests."""

    def __init__(self, wire: HttpWire[Any, Any], clients: ClientPool, ctx: Context) -> None:
        self._server = _Server(wire)
        self._clients = clients
        self._ctx = ctx

    def apply(self, wire: HttpWire[Any, Any]) -> None:
        """Use other settings from the next call on; calls that are prepared keep theirs."""
        self._server = _Server(wire)

    def stream(self, request: GenerateOptions) -> Chunks:
        """Run one request. Raises LlmError, and HarnessError for a missing or unusable key."""
        return self._stream(self._server, request)

    async def prepare_call(self, config: LlmCallConfig) -> BoundCall:
        """Bind the call to the settings of this moment."""
        server = self._server
        return BoundCall(server.settings.model_info(config.model), partial(self._stream, server))

    def retry_policy(self, provider: str) -> RetryPolicy:
        """The configured policy."""
        return self._server.settings.retry.policy()

    def default_model(self, provider: str) -> str | None:
        """The configured model."""
        return self._server.settings.model

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        """What the settings say; whether the server has the model shows at the call."""
        return self._server.settings.model_info(model)

    async def list_models(self, provider: str) -> Sequence[ModelInfo]:
        """The configured models, or those that the server lists. Raises LlmError."""
        server = self._server
        if server.settings.models:
            return [server.settings.model_info(model) for model in server.settings.models]
        key = await server.keys.key()
        body = await self._fetched(server, key, server.wire.models_path)
        try:
            found = parse_json(body)
        except ValueError:
            found = None
        entries = found.get("data", found.get("models")) if isinstance(found, Mapping) else found
        if not isinstance(entries, list):
            raise LlmError(server.errors(key).malformed("no list of models", body))
        return server.wire.models(entry for entry in entries if isinstance(entry, Mapping))

    async def _stream(self, server: _Server, request: GenerateOptions) -> Chunks:
        request = server.completed(request)
        settings, wire = server.settings, server.wire
        key = await server.keys.key()
        errors, headers = server.errors(key), server.headers(key, request)
        decoder = wire.decoder(request, errors)
        body: bytes | None = wire.encode(request)
        with self._clients.lease() as client:
            while body is not None:
                outgoing = new_request(client, settings, wire.path, headers=headers, body=body)
                answer = AnswerStream(decoder)
                async with Exchange(client, settings, outgoing, answer, errors) as exchange:
                    while not exchange.ended:
                        chunks = await exchange.read()
                        for chunk in chunks:
                            yield chunk
                self._note(chunks, request)
                body = wire.resumed(request, decoder)

    def _note(self, last: Sequence[Chunk], request: GenerateOptions) -> None:
        end = last[-1] if last else None
        if isinstance(end, FinishChunk) and end.finish.kind == "leaked-tool-call":
            self._ctx.logger.warning(
                "model wrote a tool call as text",
                provider=request.provider,
                model=request.model,
                session=request.session_id,
            )

    async def _fetched(self, server: _Server, key: str | None, path: str) -> bytes:
        settings = server.settings
        with self._clients.lease() as client, anyio.move_on_after(_LIST_SECONDS):
            request = new_request(client, settings, path, headers=server.headers(key))
            async with aclosing(await sent(client, request, settings)) as response:
                try:
                    body = await response.aread()
                except httpx2.HTTPError as error:
                    raise broken(error, settings) from error
            if response.is_success:
                return body
            raise refused(response, body, settings, server.errors(key))
        raise silent(settings, "the limit of a list of models", _LIST_SECONDS)
