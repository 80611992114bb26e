from typing import Protocol

from terret_llm._chunks import Chunk
from terret_llm._errors import failure_of
from terret_llm._outcomes import LlmFailure
from terret_llm.sse import MAX_EVENT_BYTES, EventTooLargeError, SseDecoder, SseEvent

from ._json import parse_json

_BEFORE_TEXT = b"\xef\xbb\xbf \t\r\n"


class Decoder(Protocol):
    """Turns the payloads of one answer into chunks, the last of which is a finish."""

    @property
    def finished(self) -> bool:
        """Whether the answer is over; what the server may still send does not matter."""
        ...

    @property
    def answered(self) -> bool:
        """Whether the model has said why it stopped, so that a broken connection does no harm."""
        ...

    def push(self, data: bytes, event: str = "") -> list[Chunk]:
        """Take the data of the next event and return its chunks; none once it is finished."""
        ...

    def push_whole(self, data: bytes) -> list[Chunk]:
        """Take a whole answer, not streamed, and return all its chunks."""
        ...

    def close(self) -> list[Chunk]:
        """The body has ended; return the rest of the chunks."""
        ...

    def fail(self, failure: LlmFailure) -> list[Chunk]:
        """The answer ends with this failure; return the rest of the chunks."""
        ...


class AnswerStream:
    """Feeds a decoder from the body of a response: an event stream, or a whole answer in one JSON.

    The chunks do not depend on how the body is cut. The last of them is a finish.
    """

    def __init__(self, decoder: Decoder, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._decoder = decoder
        self._sse = SseDecoder(max_event_bytes=max_event_bytes)
        self._limit = max_event_bytes
        self._head: bytes | None = b""
        self._whole: list[bytes] | None = None
        self._whole_size = 0

    @property
    def finished(self) -> bool:
        """Whether the answer is over; the rest of the body does not matter."""
        return self._decoder.finished

    @property
    def answered(self) -> bool:
        """Whether the model has said why it stopped, so that a broken connection does no harm."""
        return self._decoder.answered

    def feed(self, piece: bytes) -> list[Chunk]:
        """Take the next bytes of the body and return the chunks they complete."""
        if self._head is not None:
            piece = self._sniffed(self._head + piece)
        if self._whole is not None:
            return self._collect(self._whole, piece)
        try:
            events = self._sse.feed(piece)
        except EventTooLargeError as error:
            return self._decoder.fail(failure_of(error))
        return self._chunks(events)

    def close(self) -> list[Chunk]:
        """The body has ended; the rest of the chunks, with the finish if it has not come yet."""
        if self._whole is not None:
            return self._decoder.push_whole(b"".join(self._whole))
        try:
            events = self._sse.close()
        except EventTooLargeError as error:
            return self._decoder.fail(failure_of(error))
        whole = [event for event in events if not _is_cut(event.data)]
        return [*self._chunks(whole), *self._decoder.close()]

    def _sniffed(self, head: bytes) -> bytes:
        """Decide by the first character of the body: content types are often wrong."""
        text = head.lstrip(_BEFORE_TEXT)
        if not text:
            self._head = head
            return b""
        self._head = None
        if text[:1] in b"{[<":
            self._whole = []
        return head

    def _collect(self, whole: list[bytes], piece: bytes) -> list[Chunk]:
        whole.append(piece)
        self._whole_size += len(piece)
        if self._whole_size <= self._limit:
            return []
        return self._decoder.fail(failure_of(EventTooLargeError(self._limit)))

    def _chunks(self, events: list[SseEvent]) -> list[Chunk]:
        if len(events) == 1:
            return self._decoder.push(events[0].data, events[0].event)
        chunks: list[Chunk] = []
        for event in events:
            chunks += self._decoder.push(event.data, event.event)
        return chunks


def _is_cut(data: bytes) -> bool:
    """Whether this last event, which no blank line has ended, is the beginning of one only."""
    if not data.startswith(b"{"):
        return data != b"[DONE]" and b"[DONE]".startswith(data)
    try:
        parse_json(data)
    except ValueError:
        return True
    return False
