import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress

import anyio
import httpx2

from terret_llm import (
    Chunks,
    GenerateOptions,
    HarnessError,
    LlmAdapter,
    LlmError,
    LlmFailure,
    ModelInfo,
    checked_api_key,
    user_agent,
)
from terret_llm.chat import ChatCodec, ChatStream, ProviderErrors

from ._config import OpenAiConfig

_MAX_ERROR_BYTES = 64 * 1024
_DRAIN_SECONDS = 0.05


def open_client(config: OpenAiConfig) -> httpx2.AsyncClient:
    """The client of one mount; enter it to use it. Time limits on reads are the adapter's."""
    return httpx2.AsyncClient(
        base_url=config.base_url,
        # Loading certificates takes a fifth of a second, and redirects are not followed.
        verify=config.base_url.startswith("https:"),
        headers={
            "user-agent": user_agent("terret-plugin-llm-openai"),
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
            **config.headers,
        },
        timeout=httpx2.Timeout(None, connect=config.connect_timeout),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
    )


class OpenAiAdapter(LlmAdapter):
    """Speaks chat completions with one server, over a client that its owner opens and closes."""

    def __init__(self, config: OpenAiConfig, client: httpx2.AsyncClient) -> None:
        self._config = config
        self._client = client
        self._codec = ChatCodec(
            replay_reasoning=config.replay_reasoning,
            max_tokens_field=config.output_cap_name,
        )

    async def stream(self, request: GenerateOptions) -> Chunks:
        """Run one request. Raises LlmError, and HarnessError for a missing or unusable key."""
        config = self._config
        key = self._api_key()
        secrets = (key, *(value for value in config.headers.values() if len(value) >= 8))
        errors = ProviderErrors(config.host, tuple(filter(None, secrets)))
        answer = ChatStream(errors=errors, inline_think=config.inline_think)
        limit = config.first_byte_timeout
        due = time.monotonic() + limit
        response = await self._send(self._request(request, key))
        async with _pieces(response) as pieces:
            if not response.is_success:
                body = await self._error_body(pieces)
                raise LlmError(errors.of_response(response.status_code, response.headers, body))
            try:
                async for piece in pieces:
                    last = answer.feed(piece)
                    if answer.finished:
                        break
                    if not last and time.monotonic() > due:
                        raise self._silent(limit)
                    for chunk in last:
                        yield chunk
                    if last:
                        limit = config.idle_timeout
                        due = time.monotonic() + limit
                else:
                    last = answer.close()
            except httpx2.HTTPError as error:
                if not answer.answered:
                    raise self._broken(error) from error
                last = answer.close()
            await _drain(pieces, _DRAIN_SECONDS)
            for chunk in last:
                yield chunk

    def default_model(self, provider: str) -> str | None:
        """The configured model."""
        return self._config.model

    async def list_models(self, provider: str) -> Sequence[ModelInfo]:
        """The configured model, if there is one."""
        return [self._model(self._config.model)] if self._config.model else []

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        """The model with the configured limits; whether the server has it shows at the call."""
        return self._model(model)

    def _model(self, model: str) -> ModelInfo:
        config = self._config
        return ModelInfo(
            id=model, context_window=config.context_window, max_tokens=config.max_tokens
        )

    def _api_key(self) -> str | None:
        config = self._config
        if config.api_key is not None:
            return checked_api_key(config.api_key.get_secret_value(), source="apiKey")
        name = config.api_key_env
        value = None if name is None else os.environ.get(name, "").strip()
        if value:
            return checked_api_key(value, source=f"the environment variable {name}")
        if name is None or config.is_loopback:
            return None
        raise HarnessError(
            f"{name} is not set, and {config.host} needs an API key: set it, for instance in a "
            "file `.env` beside harness.yml, or point llm-openai at a server without key:\n"
            "  baseUrl: http://127.0.0.1:8080/v1\n"
            "  apiKeyEnv: null",
            "MISSING_CREDENTIAL",
        )

    def _request(self, request: GenerateOptions, key: str | None) -> httpx2.Request:
        extra: dict[str, object] = dict(self._config.extra_body)
        if request.temperature is None and self._config.temperature is not None:
            extra = {"temperature": self._config.temperature} | extra
        return self._client.build_request(
            "POST",
            "chat/completions",
            content=self._codec.encode_request(request, extra=extra),
            headers={} if key is None else {"authorization": f"Bearer {key}"},
        )

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """The response, once its headers are there; reads of its body have the idle limit."""
        limit = self._config.first_byte_timeout
        try:
            with anyio.move_on_after(limit):
                response = await self._client.send(request, stream=True)
                request.extensions["timeout"]["read"] = self._config.idle_timeout
                return response
        except httpx2.HTTPError as error:
            raise self._broken(error) from error
        raise self._silent(limit)

    async def _error_body(self, pieces: AsyncIterator[bytes]) -> bytes:
        body = b""
        with suppress(httpx2.HTTPError), anyio.move_on_after(self._config.connect_timeout):
            async for piece in pieces:
                body += piece
                if len(body) > _MAX_ERROR_BYTES:
                    break
        return body[:_MAX_ERROR_BYTES]

    def _silent(self, seconds: float) -> LlmError:
        text = (
            f"{self._config.host} sent nothing of an answer for {seconds:g} s; "
            "firstByteTimeout and idleTimeout set the limits"
        )
        return LlmError(LlmFailure(text, "TIMEOUT"))

    def _broken(self, error: httpx2.HTTPError) -> LlmError:
        host, said = self._config.host, str(error) or type(error).__name__
        if isinstance(error, httpx2.ReadTimeout):
            return self._silent(self._config.idle_timeout)
        if isinstance(error, httpx2.ConnectTimeout):
            text = f"{host} did not accept a connection within {self._config.connect_timeout:g} s"
            return LlmError(LlmFailure(text, "TIMEOUT"))
        if isinstance(error, httpx2.TimeoutException):
            return LlmError(LlmFailure(f"{host} took too long: {said}", "TIMEOUT"))
        if isinstance(error, httpx2.ConnectError):
            return LlmError(LlmFailure(f"cannot connect to {host}: {said}", "TRANSPORT"))
        return LlmError(LlmFailure(f"the connection to {host} broke: {said}", "TRANSPORT"))


@asynccontextmanager
async def _pieces(response: httpx2.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """The pieces of a body; leaving early closes the connection."""
    async with aclosing(response):
        pieces = response.aiter_bytes()
        try:
            yield pieces
        finally:
            # Closing a suspended iterator leaves one inside it to the garbage collector; a read
            # that is cancelled at once ends them all.
            await _drain(pieces, 0)


async def _drain(pieces: AsyncIterator[bytes], seconds: float) -> None:
    """Read the rest of a body, for that long: a connection read to its end can be used again."""
    with suppress(httpx2.HTTPError), anyio.move_on_after(seconds):
        async for _ in pieces:
            pass
