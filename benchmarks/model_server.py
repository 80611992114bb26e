"""A chat-completions server that streams prepared bytes.

Runs in a process of its own. It answers `POST /v1/chat/completions`; the model name `chunks-250`
asks for 250 text chunks. `GET /first-request` gives the monotonic time at which a first request
arrived since the last such question, or 0.
"""

import asyncio
import contextlib
import json
import re
import time
from functools import cache


@cache
def streamed_answer(chunks: int) -> bytes:
    """Return a complete response: headers, SSE events, end."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    deltas = [{"role": "assistant", "content": ""}, *({"content": f"w{n} "} for n in range(chunks))]
    events = [head | {"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    events.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": 10, "completion_tokens": chunks, "total_tokens": 10 + chunks}
    events.append(head | {"choices": [], "usage": usage})
    frames = [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]
    body = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames) + b"0\r\n\r\n"
    lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class ModelServer:
    """Serves until it is cancelled."""

    def __init__(self) -> None:
        self.first_request = 0.0

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
        model = json.loads(body)["model"]
        return streamed_answer(int(model.removeprefix("chunks-")))

    def first_request_answer(self) -> bytes:
        body, self.first_request = str(self.first_request).encode(), 0.0
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def main() -> None:
    """Listen on a free port of the loopback interface and print its number."""
    server = await asyncio.start_server(ModelServer().answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
