"""Many readers of one event stream, in a process of their own.

`sse_clients.py URL COUNT [POST_URL BODY]` opens that many streams and prints `ready` when all of
them have begun. With a body it posts that, waits until every stream has had the event `done`, and
prints what the first one was sent as a JSON text. It ends with its standard input.

It looks at its sockets now and then only: to wake a reader on the same machine for every piece
would cost the server several times what sending costs.
"""

import json
import socket
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

DONE = b"event: done"
PAUSE = 0.05


class Reader:
    """Reads a stream to the event `done`."""

    def __init__(self, url: str, method: str = "GET", body: str = "") -> None:
        target = urlsplit(url)
        lines = [f"{method} {target.path}?{target.query} HTTP/1.1", f"Host: {target.netloc}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", body]
        self.received = bytearray()
        self._socket = socket.create_connection((target.hostname, target.port))
        self._socket.sendall("\r\n".join(lines).encode())

    def begin(self) -> None:
        """Wait for the beginning of the body."""
        while b"\r\n\r\n" not in self.received:
            self.received += self._socket.recv(65536)
        assert self.received.startswith(b"HTTP/1.1 200"), self.received
        self._socket.setblocking(False)

    def look(self) -> bool:
        """Take what has arrived; whether that was all."""
        new = max(len(self.received) - len(DONE), 0)
        with suppress(BlockingIOError):
            while piece := self._socket.recv(65536):
                self.received += piece
        return self.received.find(DONE, new) >= 0

    @property
    def body(self) -> bytes:
        """The body of the response, which is sent in chunks."""
        _, _, rest = bytes(self.received).partition(b"\r\n\r\n")
        found = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            found, rest = found + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        return found


def main(url: str, count: int, *post: str) -> None:
    """Open the streams, and follow them to the end of a turn."""
    readers = [Reader(url) for _ in range(count)]
    for reader in readers:
        reader.begin()
    print("ready", flush=True)
    if post:
        answer = Reader(post[0], "POST", post[1])
        waiting = readers
        while waiting:
            time.sleep(PAUSE)
            waiting = [reader for reader in waiting if not reader.look()]
        answer.begin()
        print(json.dumps(readers[0].body.decode()), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
