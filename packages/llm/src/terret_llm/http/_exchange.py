import time
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from math import inf
from types import TracebackType
from typing import Self

import anyio
import httpx2

from terret_llm._chunks import Chunk
from terret_llm._errors import LlmError
from terret_llm.settings import ServerSettings
from terret_llm.wire import AnswerStream, ProviderErrors

from ._failures import broken, endless, refused, silent
from ._sending import sent

_MAX_ERROR_BYTES = 64 * 1024
_DRAIN_SECONDS = 0.05
_TAIL_SECONDS = 5.0


class Exchange:
    """One request and its streamed answer, within the time limits. An async manager.

    Leaving early closes the connection. Entering and reading raise LlmError.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        settings: ServerSettings,
        request: httpx2.Request,
        answer: AnswerStream,
        errors: ProviderErrors,
    ) -> None:
        self._client = client
        self._settings = settings
        self._request = request
        self._answer = answer
        self._errors = errors
        self._limit = ("firstByteTimeout", settings.first_byte_timeout)
        self._client_watches = _one_limit_is_enough(settings)
        self._is_watched = False
        self.ended = False

    async def __aenter__(self) -> Self:
        started = time.monotonic()
        total = self._settings.total_timeout
        self._end = inf if total is None else started + total
        self._due = min(started + self._limit[1], self._end)
        self._response = await self._sent()
        self._pieces = self._response.aiter_bytes()
        if self._response.is_success:
            return self
        try:
            body = await self._error_body()
        finally:
            await self._leave()
        raise refused(self._response, body, self._settings, self._errors)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave()

    async def read(self) -> list[Chunk]:
        """The next chunks of the answer; the last of them when `ended` is set."""
        while True:
            piece = await self._piece()
            if piece is None:
                self.ended = True
                return self._answer.close()
            chunks = self._answer.feed(piece)
            if self._answer.finished:
                self.ended = True
                await _drain(self._pieces, _DRAIN_SECONDS)
                return chunks
            self._set_limits(has_output=bool(chunks))
            if chunks:
                return chunks

    def _set_limits(self, *, has_output: bool) -> None:
        """How long to wait for the next piece. Raises LlmError if the last one came too late."""
        now = time.monotonic()
        if self._answer.answered:  # counts may follow, and an end mark
            self._is_watched = False
            self._due = min(self._due, now + min(_TAIL_SECONDS, self._settings.idle_timeout))
        elif now > (self._end if has_output else self._due):
            raise self._too_slow()
        elif has_output:
            self._is_watched = self._client_watches
            self._limit = ("idleTimeout", self._settings.idle_timeout)
            self._due = min(now + self._limit[1], self._end)

    async def _piece(self) -> bytes | None:
        """The next bytes of the body, within what is left of the time; None at its end.

        Once the model has said why it stopped, neither a broken connection nor silence does harm.
        """
        try:
            if self._is_watched:
                return await anext(self._pieces)
            with anyio.move_on_after(self._due - time.monotonic()):
                return await anext(self._pieces)
        except StopAsyncIteration:
            return None
        except httpx2.ReadTimeout:
            pass
        except httpx2.HTTPError as error:
            if not self._answer.answered:
                raise broken(error, self._settings) from error
        if not self._answer.answered:
            raise self._too_slow()
        return None

    async def _sent(self) -> httpx2.Response:
        """The response, once its headers are there."""
        with anyio.move_on_after(self._due - time.monotonic()):
            response = await sent(self._client, self._request, self._settings)
            if self._client_watches:
                self._request.extensions["timeout"]["read"] = self._settings.idle_timeout
            return response
        raise self._too_slow()

    async def _leave(self) -> None:
        async with aclosing(self._response):
            # Closing a suspended iterator leaves one inside it to the garbage collector; a read
            # that is cancelled at once ends them all.
            await _drain(self._pieces, 0)

    async def _error_body(self) -> bytes:
        body = b""
        with suppress(httpx2.HTTPError), anyio.move_on_after(self._settings.connect_timeout):
            async for piece in self._pieces:
                body += piece
                if len(body) > _MAX_ERROR_BYTES:
                    break
        return body[:_MAX_ERROR_BYTES]

    def _too_slow(self) -> LlmError:
        if time.monotonic() >= self._end:
            return endless(self._settings)
        return silent(self._settings, *self._limit)


def _one_limit_is_enough(settings: ServerSettings) -> bool:
    """Whether the client can watch the reads behind the first output.

    It takes one limit for all reads of a body, which costs nothing; one around each read costs as
    much as all that is done with a piece.
    """
    first, idle = settings.first_byte_timeout, settings.idle_timeout
    return first <= idle and settings.total_timeout is None


async def _drain(pieces: AsyncIterator[bytes], seconds: float) -> None:
    """Read the rest of a body, for that long: a connection read to its end can be used again."""
    with suppress(httpx2.HTTPError), anyio.move_on_after(seconds):
        async for _ in pieces:
            pass
