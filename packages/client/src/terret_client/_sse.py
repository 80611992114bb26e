"""Server-sent events, framed on bytes: however a stream is cut, the frames are the same."""

from dataclasses import dataclass
from typing import Final

from ._errors import MalformedAnswerError

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SseFrame:
    """One frame: its data lines joined with LF, its name, and its own id if it has one."""

    data: bytes
    name: str = ""
    id: str | None = None


class SseDecoder:
    """Turns pieces of a body into frames.

    LF, CR and CRLF end a line and nothing else does. Comments and unknown fields are ignored. What
    follows the last blank line is not a frame yet, so a client that lost its connection asks for
    it again: `last_id` is that of the last complete frame.
    """

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.last_id: str | None = None
        self.retry: float | None = None
        """Seconds that the server wants a client to wait before it connects again."""
        self._limit = max_frame_bytes
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self._id: str | None = None
        self._after_cr = False
        self._at_start = True

    def feed(self, piece: bytes) -> list[SseFrame]:
        """Takes the next bytes of the body and returns the frames that they complete.

        Raises `MalformedAnswerError` for a frame of more than `max_frame_bytes`.
        """
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if not piece:
            return []
        frames = [frame for line in self._lines(piece) if (frame := self._take(line)) is not None]
        self._check(self._size + len(self._rest))
        return frames

    def _lines(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes; its unfinished rest is kept."""
        lines = piece.splitlines()
        self._after_cr = piece.endswith(b"\r")
        rest = b"" if piece.endswith((b"\n", b"\r")) else lines.pop()
        if self._rest and lines:
            lines[0] = bytes(self._rest + lines[0])
            self._rest.clear()
        self._rest += rest
        if self._at_start and lines:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        return lines

    def _take(self, line: bytes) -> SseFrame | None:
        if not line:
            return self._complete()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                self._data.append(value)
                self._size += len(value)
                self._check(self._size)
            case b"event":
                self._name = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry = int(value) / 1000
        return None

    def _complete(self) -> SseFrame | None:
        name, data, id = self._name, self._data, self._id
        self._name, self._data, self._id = "", [], None
        if id is not None:
            self.last_id = id or None
        if not data:
            return None
        self._size -= sum(map(len, data))
        return SseFrame(b"\n".join(data), name, id or None)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise MalformedAnswerError(f"an event of more than {self._limit} bytes")
