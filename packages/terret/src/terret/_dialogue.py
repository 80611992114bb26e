"""What a person writes in a chat: messages, and answers to what is asked."""

import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import anyio

from ._lines import Lines
from ._printing import printable, say, width_of
from ._terminal import forget_typed

PROMPT = "> "


class Dialogue:
    """The input of a chat, and the terminal that belongs to it.

    Messages are read when the chat asks for one; on a terminal, with an editor. While a turn runs,
    what comes is an answer if something is asked, else it waits to be the next message.
    """

    def __init__(self) -> None:
        self.is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self.edits = self.is_terminal and sys.stdout.isatty()
        self._lines = Lines(sys.stdin)
        self._editor: Callable[[], Awaitable[str | None]] | None = None
        self._history: tuple[str, ...] = ()
        self._ahead: deque[str] = deque()
        self._questions = 0
        self._is_over = False
        self._arrived = anyio.Event()

    def remember(self, messages: Iterable[str]) -> None:
        """Sets what the arrow keys give, before the first message is read."""
        self._history = tuple(messages)

    @property
    def is_asking(self) -> bool:
        """Whether the next line is an answer."""
        return self._questions > 0

    async def next(self) -> str | None:
        """Returns the next message; `None` at the end. Raises `InterruptedLineError`."""
        while not self._is_over:
            if self._ahead and not self._questions:
                line = self._ahead.popleft()
                if self.is_terminal:
                    say(f"{PROMPT}{line}")
                return line
            message = await self._message()
            if not self._questions:
                return message
            self._take(message)
        return self._ahead.popleft() if self._ahead else None

    async def read_ahead(self, command: Callable[[str], bool]) -> None:
        """Reads as long as it may; what `command` does not take is an answer or a message."""
        while not self._is_over:
            line = await self._lines.read()
            if line is None or not command(line.strip()):
                self._take(line)

    @property
    def width(self) -> int:
        """How many characters fit on a line."""
        return width_of(sys.stderr)

    def write(self, text: str) -> None:
        """Shows a text beside the dialogue."""
        sys.stderr.write(printable(text))
        sys.stderr.flush()

    async def ask(self, prompt: str) -> str | None:
        """Returns the next line; on a terminal, what was typed before does not count."""
        kept: deque[str] = deque()
        if self.is_terminal:
            kept, self._ahead = self._ahead, kept
            forget_typed(sys.stdin)
        self.write(prompt)
        self._questions += 1
        try:
            while not self._ahead and not self._is_over:
                await self._arrived.wait()
            return self._ahead.popleft() if self._ahead else None
        finally:
            self._questions -= 1
            self._ahead.extendleft(reversed(kept))

    def _take(self, line: str | None) -> None:
        if line is None:
            self._is_over = True
        else:
            self._ahead.append(line)
        self._arrived.set()
        self._arrived = anyio.Event()

    async def _message(self) -> str | None:
        if self.edits:
            if self._editor is None:
                from ._editor import Editor

                self._editor = Editor(self._history).read
            return await self._editor()
        if self.is_terminal:
            self.write(PROMPT)
        return await self._lines.read()
