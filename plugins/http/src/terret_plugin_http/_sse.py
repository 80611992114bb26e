"""Server-sent events: frames, where they come from, and a response that writes them."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Final, NamedTuple

import anyio
from pydantic_core import to_json
from starlette.types import Message, Receive, Scope, Send

from ._conversations import Conversation, Turn
from ._neighbours import Cursor, EventStream, Output
from ._turns import is_unsent, turn_of_message, unsent_events

_BEGIN: Final = b"retry: 2000\n\n"
_SILENCE: Final = b": keep-alive\n\n"
_END: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": False}
_TERMINALS: Final = frozenset(("done", "error", "turn/end"))
_AWAITED: Final = _TERMINALS | {
    *("approval:pending", "question:pending"),
    *("approval/asked", "question/asked"),
}


def frame(output: Output) -> bytes:
    """Writes an event with its cursor."""
    name = output.event["type"].encode()
    return b"event: %b\ndata: %b\nid: %b\n\n" % (name, output.json, str(output.cursor).encode())


def frame_of_log(output: Output) -> bytes:
    """Writes an event of the log with its seq."""
    name = output.event["type"].encode()
    return b"event: %b\ndata: %b\nid: %d\n\n" % (name, output.json, output.cursor[0])


class Page(NamedTuple):
    """Frames, and the last seq that has to be durable before they are sent."""

    frames: bytes
    awaited: int | None


class Writer:
    """Writes outputs as frames. The readers of a session ask for the same, so the last are kept."""

    def __init__(self, frame_of: Callable[[Output], bytes]) -> None:
        self._frame_of = frame_of
        self._outputs: tuple[Output, ...] = ()
        self._page = Page(b"", None)

    def __call__(self, outputs: tuple[Output, ...]) -> Page:
        if outputs != self._outputs:
            self._outputs = outputs
            frames = b"".join([self._frame_of(output) for output in outputs])
            awaited = [each.cursor[0] for each in outputs if each.event["type"] in _AWAITED]
            self._page = Page(frames, awaited[-1] if awaited else None)
        return self._page


def frame_without_id(event: Mapping[str, object]) -> bytes:
    """Writes an event that no log has."""
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), to_json(event))


class Source(ABC):
    """Where the frames of one response come from."""

    @abstractmethod
    async def frames(self) -> bytes:
        """Waits for frames and returns all that are there; none at the end."""

    @abstractmethod
    async def too_slow(self) -> None:
        """Returns when the reader has left too much waiting."""

    @abstractmethod
    def close(self) -> None:
        """Ends the source; what waits in it may still be taken."""


class StreamSource(Source):
    """The events of a stream up to its end or, with `turn_only`, to the end of a turn.

    What clients wait for is sent when `durable(seq)` has returned, so that they find it again
    after a crash.
    """

    def __init__(
        self,
        stream: EventStream,
        durable: Callable[[int], Awaitable[None]],
        *,
        turn_only: bool,
        write: Callable[[tuple[Output, ...]], Page],
    ) -> None:
        self._stream = stream
        self._durable = durable
        self._turn_only = turn_only
        self._write = write
        self._taken: tuple[Output, ...] = ()
        self._over = False

    async def frames(self) -> bytes:
        if not self._taken and not self._over:
            self._taken = self._up_to_end(await self._stream.batch())
        page = self._write(self._taken)
        if page.awaited is not None:
            await self._durable(page.awaited)
        self._taken = ()
        return page.frames

    async def too_slow(self) -> None:
        await self._stream.overflowed.wait()

    def close(self) -> None:
        self._stream.close()

    def _up_to_end(self, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
        if self._turn_only:
            for position, output in enumerate(outputs, start=1):
                if output.event["type"] in _TERMINALS:
                    self._over = True
                    return outputs[:position]
        return outputs


class MessageSource(Source):
    """The events of the turn that a message gets; without one, just that it got none."""

    def __init__(
        self,
        conversation: Conversation,
        message_id: str,
        open_source: Callable[[Cursor], StreamSource],
    ) -> None:
        self._conversation = conversation
        self._message_id = message_id
        self._open = open_source
        self._source: StreamSource | None = None
        self._opened = anyio.Event()
        self._over = False

    async def frames(self) -> bytes:
        if self._over:
            return b""
        if self._source is None:
            turn = await self._turn()
            if turn is None:
                self._over = True
                unsent = unsent_events(self._conversation.key.raw_id)
                return b"".join(map(frame_without_id, unsent))
            self._source = self._open((turn.first, -1))
            self._opened.set()
        return await self._source.frames()

    async def too_slow(self) -> None:
        await self._opened.wait()
        assert self._source is not None
        await self._source.too_slow()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    async def _turn(self) -> Turn | None:
        """Waits until a turn takes the message; returns `None` if none will."""
        conversation, id = self._conversation, self._message_id
        while (turn := turn_of_message(conversation, id)) is None:
            if is_unsent(conversation, id):
                return None
            await conversation.changed()
        return turn


class EventResponse:
    """Writes the frames of a source until it ends, the client goes away or is too slow.

    The source waits for nobody: what its reader does not take stays in it.
    """

    def __init__(
        self,
        source: Source,
        sources: set[Source],
        *,
        heartbeat_seconds: float,
        headers: Mapping[str, str],
    ) -> None:
        self._source = source
        self._sources = sources
        self._heartbeat = heartbeat_seconds
        self._headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"x-accel-buffering", b"no"),
            *((name.lower().encode(), value.encode()) for name, value in headers.items()),
        ]
        self._last = 0.0  # when something was sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._sources.add(self._source)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            whole = scope["method"] == "HEAD" or await self._stream(receive, send)
        finally:
            self._sources.discard(self._source)
            self._source.close()
        if whole:
            await send(_END)

    async def _stream(self, receive: Receive, send: Send) -> bool:
        """Writes what there is; tells whether that was all."""
        await self._send(send, _BEGIN)
        async with anyio.create_task_group() as group:
            group.start_soon(self._until_gone, receive, group.cancel_scope)
            group.start_soon(self._until_too_slow, send, group.cancel_scope)
            while frames := await self._source.frames():
                await self._send(send, frames)
            group.cancel_scope.cancel()
            return True
        return False

    async def _send(self, send: Send, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})
        self._last = monotonic()

    async def _until_gone(self, receive: Receive, everything: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        everything.cancel()

    async def _until_too_slow(self, send: Send, everything: anyio.CancelScope) -> None:
        """Breaks silences, in a task of its own: a timer for each wait would cost far more."""
        while True:
            with anyio.move_on_after(self._last + self._heartbeat - monotonic()):
                await self._source.too_slow()
                everything.cancel()
            if monotonic() >= self._last + self._heartbeat:
                with anyio.move_on_after(self._heartbeat):  # a stuck reader is cut all the same
                    await self._send(send, _SILENCE)
