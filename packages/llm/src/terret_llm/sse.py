"""Server-sent events, framed on bytes: however a stream is cut, the events are the same."""

from typing import Final

from ._errors import HarnessError
from ._slotted import slotted

__all__ = ["MAX_EVENT_BYTES", "EventTooLargeError", "SseDecoder", "SseEvent"]

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024


class EventTooLargeError(HarnessError):
    """An event or a line is longer than the decoder accepts; code MALFORMED_RESPONSE."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the server sent an event of more than {limit} bytes", "MALFORMED_RESPONSE"
        )
        self.limit = limit


@slotted
class SseEvent:
    """One event: its data lines joined with LF, and its name (empty without an `event` line)."""

    data: bytes
    event: str = ""


class SseDecoder:
    """Turns pieces of a body into events.

    LF, CR and CRLF end a line and nothing else does. Comments and unknown fields are ignored, also
    `id` and `retry`: no consumer reconnects. A character cut between two pieces is whole again,
    because nothing is decoded before its event is complete.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = ""
        self._after_cr = False
        self._at_start = True
        self._error: EventTooLargeError | None = None

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Take the next bytes of the body and return the events they complete.

        Raises EventTooLargeError; what came before the oversized event is returned first.
        """
        if self._error is not None:
            raise self._error
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if not piece:
            return []
        return self._delivered(self._take(self._lines(piece)))

    def close(self) -> list[SseEvent]:
        """The body has ended: return its last event if no blank line followed it."""
        if self._error is not None:
            raise self._error
        last = b"".join(self._partial)
        self._partial.clear()
        self._partial_size = 0
        return self._delivered(self._take([last, b""]))

    def _lines(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes; its unfinished rest is kept."""
        lines = piece.splitlines()
        self._after_cr = piece.endswith(b"\r")
        rest = b"" if piece.endswith((b"\n", b"\r")) else lines.pop()
        if self._partial and lines:
            self._partial.append(lines[0])
            lines[0] = b"".join(self._partial)
            self._partial.clear()
            self._partial_size = 0
        if rest:
            self._partial.append(rest)
            self._partial_size += len(rest)
        return lines

    def _take(self, lines: list[bytes]) -> list[SseEvent]:
        if self._at_start and lines:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        events: list[SseEvent] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append(SseEvent(b"\n".join(data), self._event))
                    data.clear()
                    self._data_size = 0
                self._event = ""
                continue
            if self._data_size + len(line) > self._limit:
                self._error = EventTooLargeError(self._limit)
                return events
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b" ", 5) else line[5:]
                data.append(value)
                self._data_size += len(value)
            elif line == b"data":
                data.append(b"")
            elif line.startswith(b"event:"):
                self._event = line[6:].removeprefix(b" ").decode("utf-8", "replace")
        if self._data_size + self._partial_size > self._limit:
            self._error = EventTooLargeError(self._limit)
        return events

    def _delivered(self, events: list[SseEvent]) -> list[SseEvent]:
        if self._error is not None and not events:
            raise self._error
        return events
