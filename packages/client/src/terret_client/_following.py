"""Following a stream over broken connections."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import anyio
import httpx2

from ._errors import StreamLostError, TerretClientError
from ._events import Event, EventDecoder
from ._http import TRANSIENT, api_error, error_event, is_stream, unreachable

LONGEST_WAIT: Final = 30.0


@dataclass(slots=True)
class Place:
    """Where a reader is in the events of a session."""

    session_id: str | None
    after: str | None = None
    """Where it began."""
    cursor: str | None = None
    unnumbered: int = 0
    """How many events without a cursor it was given."""


class _BrokenError(Exception):
    """A connection ended, and its stream did not."""

    def __init__(self, cause: TerretClientError | None = None, wait: float = 0.0) -> None:
        self.cause = cause
        self.wait = wait


class Follower:
    """Reads a stream to its end, over as many connections as it takes.

    `request` makes the request for what follows a place, and `ends` tells the last event. `missing`
    stands in for that if the service says that nothing follows.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        place: Place,
        *,
        request: Callable[[Place], httpx2.Request],
        ends: Callable[[Event], bool],
        missing: Event | None = None,
        attempts: int,
    ) -> None:
        self._http = http
        self._place = place
        self._request = request
        self._ends = ends
        self._missing = missing
        self._attempts = attempts
        self._begun = False
        self._failures = 0
        self._retry = 2.0

    async def events(self) -> AsyncGenerator[Event]:
        """Yields the events.

        What is no stream becomes one `error` event, at first and when waiting would not help.
        Raises `UnreachableError` if there is no connection at first, and `StreamLostError` after
        too many attempts in a row to take the stream up again.
        """
        while True:
            connected = anyio.current_time()
            try:
                async with aclosing(self._connection()) as events:
                    async for event in events:
                        yield event
                        if self._ends(event):
                            return
                if self._missing is not None:
                    yield self._missing
                return
            except _BrokenError as broken:
                wait = self._wait(broken, anyio.current_time() - connected)
            await anyio.sleep(wait)

    async def _connection(self) -> AsyncGenerator[Event]:
        request = self._request(self._place)
        try:
            response = await self._http.send(request, stream=True)
            async with aclosing(response):
                if is_stream(response):
                    async with aclosing(self._read(response)) as events:
                        async for event in events:
                            yield event
                    raise _BrokenError
                if response.status_code != 204:
                    await response.aread()
                    yield self._refusal(response)
        except httpx2.HTTPError as error:
            cause = unreachable(error, request.method, str(request.url))
            raise _BrokenError(cause) from error

    async def _read(self, response: httpx2.Response) -> AsyncGenerator[Event]:
        place = self._place
        self._begun = True
        if place.session_id is None and (named := response.headers.get("terret-session-id")):
            place.session_id = unquote(named)
        sent_again = response.request.method == "POST" and place.cursor is None
        repeated = place.unnumbered if sent_again else 0
        decoder = EventDecoder()
        async with _pieces(response) as pieces:
            async for piece in pieces:
                events = decoder.feed(piece)
                self._retry = self._retry if decoder.retry is None else decoder.retry
                for event in events:
                    if event.cursor is None and repeated:
                        repeated -= 1
                        continue
                    if event.type == "session":
                        place.session_id = event.data.get("sessionId", place.session_id)
                    place.cursor = event.cursor or place.cursor
                    place.unnumbered += event.cursor is None
                    self._failures = 0
                    yield event

    def _refusal(self, response: httpx2.Response) -> Event:
        if self._begun and response.status_code in TRANSIENT:
            error = api_error(response)
            raise _BrokenError(error, error.retry_after or 0)
        return error_event(response)

    def _wait(self, broken: _BrokenError, lasted: float) -> float:
        if not self._begun and broken.cause is not None:
            raise broken.cause from broken
        wait = max(self._retry, min(self._retry * 2.0**self._failures, LONGEST_WAIT))
        # A connection that lasted longer than the wait for another one was a good one.
        self._failures = 1 if lasted > wait else self._failures + 1
        if self._failures > self._attempts:
            place = self._place
            lost = StreamLostError(place.session_id, place.cursor or place.after, self._attempts)
            raise lost from broken.cause
        return max(wait, broken.wait) * random.uniform(1, 1.25)


@asynccontextmanager
async def _pieces(response: httpx2.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """The body of a response, which may be left in the middle.

    Closing a suspended iterator leaves one inside it to the garbage collector; a read that is
    cancelled at once ends them all.
    """
    pieces = response.aiter_bytes()
    try:
        yield pieces
    finally:
        with anyio.CancelScope() as scope, suppress(httpx2.HTTPError):
            scope.cancel()
            async for _ in pieces:
                pass
