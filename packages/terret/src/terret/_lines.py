"""Reading an input line by line."""

import os
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import TextIO

import anyio

_AT_ONCE = 65_536


class Lines:
    """The lines of an input; waiting for one holds nothing up, and a cancellation loses nothing.

    For one reader at a time. What the system cannot wait for, such as a file, is read at once.
    `errors` says what becomes of bytes that are no text, as for `open`.
    """

    def __init__(self, stream: TextIO | None, *, errors: str = "replace") -> None:
        self._stream = stream
        self._fd: int | None = None
        if stream is not None:
            with suppress(OSError):  # in memory
                self._fd = stream.fileno()
        self._waits = True
        self._decoder = getincrementaldecoder("utf-8")(errors)
        self._text = ""

    async def read(self) -> str | None:
        """Returns the next line, without its end; `None` at the end of the input."""
        while "\n" not in self._text:
            data = await self._more()
            self._text += self._decoder.decode(data, final=not data)
            if not data:
                rest, self._text = self._text, ""
                return rest or None
        line, _, self._text = self._text.partition("\n")
        return line.removesuffix("\r")

    async def read_all(self) -> str:
        """Returns everything up to the end of the input."""
        lines: list[str] = []
        while (line := await self.read()) is not None:
            lines.append(line)
        return "\n".join(lines)

    async def _more(self) -> bytes:
        if self._stream is None:
            return b""
        if self._fd is None:
            return self._stream.readline().encode()
        if self._waits:
            try:
                await anyio.wait_readable(self._fd)
            except OSError:
                self._waits = False
        try:
            return os.read(self._fd, _AT_ONCE)
        except OSError:  # a terminal that is gone
            return b""
