"""What a model server sends for one request: good answers, and every way to spoil one."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeAlias

Cut: TypeAlias = Literal["whole", "bytes", "characters", "line-ends"] | int
"""How a body is cut into writes: not at all, into bytes, inside each character of more than one
byte, between CR and LF, or into pieces of that many bytes."""

Ending: TypeAlias = Literal["end", "hang-up", "reset", "hold"]

_EVENT_STREAM: Mapping[str, str] = {"content-type": "text/event-stream"}
_JSON: Mapping[str, str] = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireAnswer:
    """One response, in bytes. The methods return spoilt copies.

    Attributes:
        body: What is sent.
        status: The HTTP status.
        headers: Further headers.
        cut: How the body is cut into writes.
        ending: What follows the body: its regular end, a connection closed or reset before it, or
            nothing until the client goes away.
        ping: What is sent again and again while the connection is held.
        ping_seconds: The time between two pings.
        headers_first: Whether the headers are sent; else nothing is, until the client goes away.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: _EVENT_STREAM)
    cut: Cut = "whole"
    ending: Ending = "end"
    ping: bytes = b""
    ping_seconds: float = 0.01
    headers_first: bool = True

    def in_pieces(self, cut: Cut) -> Self:
        """Sends the same body in other writes."""
        return replace(self, cut=cut)

    def hangs_up(self, after: int | None = None) -> Self:
        """Closes the connection after that many bytes of the body, or after all of them."""
        return replace(self, body=self.body[:after], ending="hang-up")

    def resets(self, after: int | None = None) -> Self:
        """Resets the connection after that many bytes of the body, or after all of them."""
        return replace(self, body=self.body[:after], ending="reset")

    def ends(self, after: int) -> Self:
        """Ends the body regularly after that many bytes, as if that were all."""
        return replace(self, body=self.body[:after])

    def holds(self, after: int | None = None, *, ping: bytes = b"", seconds: float = 0.01) -> Self:
        """Stalls after that many bytes until the client goes away, with pings in between."""
        return replace(self, body=self.body[:after], ending="hold", ping=ping, ping_seconds=seconds)

    def with_line_ends(self, line_end: Literal["\r", "\r\n"]) -> Self:
        """Ends lines otherwise than with LF."""
        return replace(self, body=self.body.replace(b"\n", line_end.encode()))

    def with_comments(self, comment: str = ": ping") -> Self:
        """Puts a comment in front of each event."""
        line = f"{comment}\n\n".encode()
        return replace(self, body=line + self.body.replace(b"\n\n", b"\n\n" + line))

    def pieces(self) -> Iterator[bytes]:
        """The writes of the body."""
        cuts = _cuts(self.body, self.cut)
        for start, end in zip((0, *cuts), (*cuts, len(self.body)), strict=True):
            if start < end:
                yield self.body[start:end]


def raw_answer(body: bytes | str, *, content_type: str = "text/event-stream") -> WireAnswer:
    """Sends exactly this body: HTML, half an event, whatever."""
    data = body.encode() if isinstance(body, str) else body
    return WireAnswer(body=data, headers={"content-type": content_type})


def event_answer(*payloads: object, names: Sequence[str] = ()) -> WireAnswer:
    """Streams events; a text is sent as it is, everything else as JSON."""
    lines = []
    for number, payload in enumerate(payloads):
        if number < len(names):
            lines.append(f"event: {names[number]}\n")
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        lines.append(f"data: {text}\n\n")
    return WireAnswer(body="".join(lines).encode())


def status_answer(status: int, body: object = None, /, **headers: str) -> WireAnswer:
    """Refuses with a status; `retry_after="1"` is the header `retry-after`."""
    error = {"error": {"message": f"status {status}"}} if body is None else body
    data = error if isinstance(error, bytes) else json.dumps(error).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return WireAnswer(body=data, status=status, headers={**_JSON, **named})


def silent_answer() -> WireAnswer:
    """Sends nothing at all until the client goes away."""
    return WireAnswer(headers_first=False, ending="hold")


def chat_answer(
    *texts: str,
    reasoning: str = "",
    calls: Sequence[tuple[str, str, str]] = (),
    usage: tuple[int, int] | None = None,
) -> WireAnswer:
    """A good answer of the chat-completions wire; calls are (id, name, arguments)."""
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}]
    if reasoning:
        deltas.append({"reasoning_content": reasoning})
    deltas += [{"content": text} for text in texts]
    for index, (id, name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": arguments}
        call = {"index": index, "id": id, "type": "function", "function": function}
        deltas.append({"tool_calls": [call]})
    choices: list[dict[str, object]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    reason = "tool_calls" if calls else "stop"
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    events: list[object] = [_chat_chunk([choice]) for choice in choices]
    if usage is not None:
        counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        events.append(_chat_chunk([]) | {"usage": counts})
    return event_answer(*events, "[DONE]")


def messages_answer(
    *texts: str,
    thinking: tuple[str, str] | None = None,
    calls: Sequence[tuple[str, str, str]] = (),
    usage: tuple[int, int] = (10, 5),
) -> WireAnswer:
    """A good answer of the Anthropic Messages wire; thinking is (text, signature)."""
    blocks: list[tuple[dict[str, object], list[dict[str, object]]]] = []
    if thinking is not None:
        text, signature = thinking
        deltas: list[dict[str, object]] = [
            {"type": "thinking_delta", "thinking": text},
            {"type": "signature_delta", "signature": signature},
        ]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if texts:
        pieces: list[dict[str, object]] = [{"type": "text_delta", "text": each} for each in texts]
        blocks.append(({"type": "text", "text": ""}, pieces))
    for id, name, arguments in calls:
        piece: dict[str, object] = {"type": "input_json_delta", "partial_json": arguments}
        blocks.append(({"type": "tool_use", "id": id, "name": name, "input": {}}, [piece]))
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    events: list[dict[str, object]] = [
        {
            "type": "message_start",
            "message": message | {"usage": {"input_tokens": usage[0], "output_tokens": 1}},
        }
    ]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if calls else "end_turn"
    counts = {"output_tokens": usage[1]}
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts})
    events.append({"type": "message_stop"})
    return event_answer(*events, names=[str(event["type"]) for event in events])


def random_faults(good: WireAnswer, *, seed: int) -> Iterator[WireAnswer]:
    """Spoils an answer in another way each time, without end; equal seeds give equal faults."""
    chance = random.Random(seed)
    while True:
        at = chance.randrange(len(good.body) + 1)
        yield chance.choice(
            [
                good,
                good.in_pieces("bytes"),
                good.in_pieces("characters"),
                good.with_line_ends("\r\n").in_pieces("line-ends"),
                good.with_comments(),
                good.ends(at),
                good.hangs_up(at),
                good.resets(at),
                good.holds(at),
                good.holds(at, ping=b": ping\n\n"),
                raw_answer("<html>gateway</html>", content_type="text/html"),
                raw_answer(b""),
                status_answer(429, retry_after="0"),
                status_answer(500),
                status_answer(529),
            ]
        )


def _chat_chunk(choices: list[dict[str, object]]) -> dict[str, object]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return head | {"choices": choices}


def _cuts(body: bytes, cut: Cut) -> tuple[int, ...]:
    if cut == "whole":
        return ()
    if cut == "bytes":
        return tuple(range(1, len(body)))
    if cut == "characters":
        return tuple(n for n in range(1, len(body)) if body[n] & 0xC0 == 0x80)
    if cut == "line-ends":
        return tuple(n for n in range(1, len(body)) if body[n - 1 : n + 1] == b"\r\n")
    return tuple(range(cut, len(body), cut))
