"""What `terret dev` and the service that it runs say to each other: lines of JSON over a socket."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

VARIABLE: Final = "TERRET_DEV"
"""Holds the number of the socket, for the process that inherits it."""
GRACE: Final = 5.0
"""Seconds in which running turns may end before the service does."""
MARGIN: Final = 2.0
"""Seconds for the end itself."""


class Link:
    """One end. Messages are small mappings; the other end may be gone."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._lines = end.makefile("rb")

    @classmethod
    def inherited(cls) -> "Link | None":
        """Returns the end that this process was started with, if it was; only once."""
        number = os.environ.pop(VARIABLE, None)
        if number is None:
            return None
        end = socket.socket(fileno=int(number))
        end.set_inheritable(False)  # whoever this process starts is not to keep it open
        return cls(end)

    def send(self, **message: object) -> None:
        """Sends a message; nothing happens if nobody is there."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return

    def receive(self) -> dict[str, Any] | None:
        """Waits for the next message; `None` if there will be none. Blocks."""
        try:
            line = self._lines.readline()
        except OSError:
            line = b""
        return json.loads(line) if line else None

    def close(self) -> None:
        """Ends it; a call of `receive` on either end returns."""
        self._lines.close()
        self._socket.close()


def follow(link: Link, take: Callable[[dict[str, Any]], object]) -> None:
    """Hands messages to `take` in a thread of its own; without the other end, ends the process.

    That is first asked for as a person would, then done.
    """

    def read() -> None:
        try:
            while (message := link.receive()) is not None:
                take(message)
        except RuntimeError:
            return  # there is no event loop any more
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE + MARGIN)
        os._exit(1)

    threading.Thread(target=read, name="terret dev", daemon=True).start()
