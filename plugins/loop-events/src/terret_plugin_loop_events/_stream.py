"""Reading a session's events from a place on, and live from where the log ends."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import anyio
from anyio.lowlevel import checkpoint
from pydantic_core import to_json

from terret_sessions import Session, SessionEvent

from ._cursor import Cursor
from ._projection import EventProjection

_REPLAY_STEP = 512


class Output:
    """One event of a projection and its place; encoded once, however many readers there are."""

    __slots__ = ("_json", "cursor", "event")

    def __init__(self, cursor: Cursor, event: Mapping[str, object]) -> None:
        self.cursor = cursor
        self.event = event
        self._json: bytes | None = None

    @property
    def json(self) -> bytes:
        """The event as one line of JSON."""
        if self._json is None:
            self._json = to_json(self.event)
        return self._json


def outputs(
    projection: EventProjection, events: Sequence[SessionEvent], after: Cursor
) -> Iterator[Output]:
    """Folds events and gives what follows the cursor."""
    for event in events:
        for number, output in enumerate(projection.feed(event)):
            cursor = Cursor(event.seq, number)
            if cursor > after:
                yield Output(cursor, output)


class Tail:
    """The live end of one session under one projection, shared by everybody who reads it.

    A kept one remembers the outputs of the last turn, so that readers need not fold the log again.
    """

    def __init__(self, projection: EventProjection, *, kept: bool) -> None:
        self.kept = kept
        self.seen: Callable[[Output], None] | None = None
        self.streams: set[EventStream] = set()
        self.changed = anyio.Event()
        self._projection = projection
        self._recent: list[Output] = []
        self._since = 0  # where the outputs begin that are remembered
        self._next = 0

    def take(self, event: SessionEvent) -> list[Output]:
        """Folds the next event and gives its outputs; one that was folded already gives none."""
        if event.seq < self._next:
            return []
        self._next = event.seq + 1
        if event.type == "turn/start":
            self._since = event.seq
            self._recent.clear()
        events = self._projection.feed(event)
        new = [Output(Cursor(event.seq, number), each) for number, each in enumerate(events)]
        if self.kept:
            self._recent += new
        return new

    def feed(self, event: SessionEvent) -> None:
        """Hands the outputs of a new event to all streams."""
        new = self.take(event)
        for output in new:
            if self.seen is not None:
                self.seen(output)
            for stream in tuple(self.streams):
                stream.push(output)
        if new:
            self.wake()

    def covers(self, after: Cursor) -> bool:
        """Tells whether everything behind a cursor is remembered."""
        return self.kept and after >= Cursor(self._since, -1)

    def recall(self, after: Cursor) -> list[Output]:
        """Gives what is remembered behind a cursor."""
        return [output for output in self._recent if output.cursor > after]

    def wake(self) -> None:
        """Wakes whoever waits for a change; one event for all is much cheaper than one each."""
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


class EventStream:
    """The outputs of a session after a cursor, without end as long as the session is live.

    An async iterator for one task. It never holds up the session: what its reader has not taken
    yet waits in it. `await stream.overflowed.wait()` returns when more than `max_bytes` of live
    outputs wait; the stream has ended then, and its reader may go on with its last cursor.
    """

    def __init__(
        self,
        session: Session,
        after: Cursor,
        tail: Tail,
        join: Callable[["EventStream", Tail], Tail] | None,
        max_bytes: int | None,
    ) -> None:
        self.overflowed = anyio.Event()
        self._session = session
        self._after = after
        self._tail = tail
        self._join = join  # until the log has been replayed
        self._max_bytes = max_bytes
        self._replayed = 0
        self._queue: deque[Output] = deque()
        self._closed = False
        if join is None:
            self._queue.extend(tail.recall(after))
            tail.streams.add(self)
        self._stored = len(self._queue)  # how many were there before the stream was live
        self._live_bytes = 0

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> Output:
        if not await self._filled():
            raise StopAsyncIteration
        output = self._queue.popleft()
        if self._stored:
            self._stored -= 1
        elif self._max_bytes is not None:
            self._live_bytes -= len(output.json)
        return output

    async def batch(self) -> tuple[Output, ...]:
        """Waits for outputs and takes all that are there; gives none at the end of the stream."""
        await self._filled()
        taken = tuple(self._queue)
        self._queue.clear()
        self._stored = self._live_bytes = 0
        return taken

    async def _filled(self) -> bool:
        """Waits until there is an output, or the stream has ended."""
        while not self._queue:
            if self._join is not None:
                self._replay(self._join)
                if not self._queue:
                    await checkpoint()
            elif self._closed:
                return False
            else:
                await self._tail.changed.wait()
        return True

    def push(self, output: Output) -> None:
        """Takes a live output."""
        if self._max_bytes is not None:
            self._live_bytes += len(output.json)
            if self._live_bytes > self._max_bytes:
                self._queue.clear()
                self.overflowed.set()
                return self.close()
        self._queue.append(output)
        return None

    def close(self) -> None:
        """Ends the stream after what waits in it; idempotent."""
        self._closed = True
        self._tail.streams.discard(self)
        self._tail.wake()

    def _replay(self, join: Callable[["EventStream", Tail], Tail]) -> None:
        """Takes some of the stored log; at its end the stream becomes part of the live tail."""
        log = self._session.events
        part = log[self._replayed : self._replayed + _REPLAY_STEP]
        for event in part:
            self._queue.extend(
                output for output in self._tail.take(event) if output.cursor > self._after
            )
        self._stored = len(self._queue)
        self._replayed += len(part)
        if self._replayed == len(log):
            self._join = None
            if not self._closed:
                self._tail = join(self, self._tail)
