from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import anyio
import httpx2

from terret_llm import (
    Chunks,
    FinishChunk,
    GenerateOptions,
    LlmError,
    LlmFailure,
    TextDelta,
    Usage,
    UsageChunk,
)
from terret_llm.chat import ChatCodec, ChatDecoder
from terret_llm.wire import AnswerStream, ProviderErrors

_ENDPOINT = "/v1/chat/completions"
_LIMITS = httpx2.Limits(max_keepalive_connections=0)  # the server hangs up without notice
_TIMEOUT = httpx2.Timeout(None, connect=5.0)  # reading may wait for the requests in front


class LocalChat:
    """The chat endpoint of a model server."""

    def __init__(self, url: str, *, key: str, seed: int) -> None:
        self._seed = seed
        self._codec = ChatCodec()
        self._errors = ProviderErrors("the local model", (key,))
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {key}"},
            timeout=_TIMEOUT,
            limits=_LIMITS,
            trust_env=False,
        )

    async def stream(self, request: GenerateOptions, **extra: object) -> Chunks:
        """Run a request; `extra` are further fields of the server, such as `json_schema`."""
        body = self._codec.encode_request(request, extra={"seed": self._seed, **extra})
        answer = AnswerStream(ChatDecoder(errors=self._errors))
        try:
            async with self._body(body) as pieces:
                async for piece in pieces:
                    for chunk in answer.feed(piece):
                        yield chunk
        except httpx2.HTTPError as error:
            text = f"the connection to the local model broke: {error!r}"
            raise LlmError(LlmFailure(text, "TRANSPORT")) from error
        for chunk in answer.close():
            yield chunk

    async def complete(self, request: GenerateOptions, **extra: object) -> tuple[str, Usage]:
        """Run a request to its end; its text and what it cost. Raises LlmError."""
        pieces: list[str] = []
        usage = Usage(0, 0)
        async with aclosing(self.stream(request, **extra)) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextDelta():
                        pieces.append(chunk.text)
                    case UsageChunk():
                        usage = chunk.usage
                    case FinishChunk() if chunk.finish.failure is not None:
                        raise LlmError(chunk.finish.failure)
        return "".join(pieces), usage

    @asynccontextmanager
    async def _body(self, content: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of the answer to a request; leaving early closes the connection."""
        async with self._client.stream("POST", _ENDPOINT, content=content) as response:
            if response.status_code != httpx2.codes.OK:
                said = await response.aread()
                raise LlmError(self._errors.of_response(response.status_code, {}, said))
            pieces = response.aiter_raw()
            try:
                yield pieces
            finally:
                # Closing a suspended iterator leaves those inside it to the garbage collector;
                # a read that is cancelled at once ends them all.
                with anyio.move_on_after(0), suppress(httpx2.HTTPError):
                    async for _ in pieces:
                        pass

    async def aclose(self) -> None:
        """End the connections, which ends what is generated for them."""
        await self._client.aclose()
