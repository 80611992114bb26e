"""What a program printed, as far as it is kept."""

import anyio
from anyio.abc import ByteReceiveStream


class Output:
    """Collects a stream up to an end mark; of a long one the beginning and the end are kept.

    Attributes:
        complete: Set when the mark, or the end of the stream, was reached.
    """

    def __init__(self, end: bytes, limit: int) -> None:
        self.complete = anyio.Event()
        self._end = end
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._held = b""  # may be the beginning of the mark

    async def collect(self, stream: ByteReceiveStream | None) -> None:
        """Reads until the end; never raises, since a stream may break with its process."""
        try:
            while stream is not None and not self.complete.is_set():
                self._feed(await stream.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._keep(self._held)
            self._held = b""
        finally:
            self.complete.set()

    def text(self) -> str:
        """Returns what was kept, with a note in the place of what was not."""
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        if not self._dropped:
            return head + tail
        return f"{head}\n[{self._dropped} bytes are left out here]\n{tail}"

    def _feed(self, data: bytes) -> None:
        data = self._held + data
        before, mark, _ = data.partition(self._end)
        if mark:
            self._held = b""
            self._keep(before)
            self.complete.set()
        else:
            split = max(len(data) - len(self._end) + 1, 0)
            self._held = data[split:]
            self._keep(data[:split])

    def _keep(self, data: bytes) -> None:
        room = max(self._half - len(self._head), 0)
        self._head += data[:room]
        self._tail += data[room:]
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess
