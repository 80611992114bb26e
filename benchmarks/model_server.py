"""A chat-completions server that streams prepared bytes.

Runs in a process of its own. It answers `POST /v1/chat/completions`; the model name `chunks-250`
asks for 250 text chunks, `tools-3-100` for three calls of the tool `add`, one a request, and then
100 text chunks. `GET /first-request` gives the monotonic time at which a first request arrived
since the last such question, or 0.
"""

import asyncio
import contextlib
import json
import re
import time
from functools import cache

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
Delta = dict[str, object]


@cache
def text_answer(chunks: int) -> bytes:
    """Return a complete response that says so many words."""
    deltas: list[Delta] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f"w{n} "} for n in range(chunks)]
    return response(deltas, "stop", chunks)


@cache
def call_answer(number: int) -> bytes:
    """Return a complete response that calls the tool `add`."""
    deltas: list[Delta] = [{"role": "assistant", "content": None}]
    head = {"index": 0, "id": f"call_{number}", "type": "function"}
    deltas.append({"tool_calls": [head | {"function": {"name": "add", "arguments": ""}}]})
    for part in ('{"a": ', '17, "b": ', "25}"):
        deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
    return response(deltas, "tool_calls", 20)


def response(deltas: list[Delta], finish: str, tokens: int) -> bytes:
    """Return headers, SSE events and the end of a response."""
    events = [HEAD | {"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    events.append(HEAD | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}
    events.append(HEAD | {"choices": [], "usage": usage})
    frames = [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]
    body = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames) + b"0\r\n\r\n"
    lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class ModelServer:
    """Serves until it is cancelled."""

    def __init__(self) -> None:
        self.first_request = 0.0
        self._calls = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client leaves."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1]) if length else 0)
                posted = head.startswith(b"POST")
                writer.write(self.stream(body) if posted else self.first_request_answer())
                await writer.drain()
        writer.close()

    def stream(self, body: bytes) -> bytes:
        self.first_request = self.first_request or time.monotonic()
        request = json.loads(body)
        kind, *numbers = request["model"].split("-")
        if kind == "tools" and results_at_the_end(request["messages"]) < int(numbers[0]):
            self._calls += 1
            return call_answer(self._calls % 1000)
        return text_answer(int(numbers[-1]))

    def first_request_answer(self) -> bytes:
        body, self.first_request = str(self.first_request).encode(), 0.0
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def results_at_the_end(messages: list[dict[str, object]]) -> int:
    """Return how many results of tools follow the last message of the user."""
    count = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        count += message["role"] == "tool"
    return count


async def main() -> None:
    """Listen on a free port of the loopback interface and print its number."""
    server = await asyncio.start_server(
        ModelServer().answer, "127.0.0.1", 0, backlog=2000, limit=16 * 1024 * 1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
