"""The line that a person writes at the prompt of a chat."""

from collections.abc import Iterable

from prompt_toolkit import PromptSession
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from ._errors import InterruptedLineError


class Editor:
    """Reads messages with a history; pasted text and Alt-Enter make further lines.

    What others print meanwhile appears above the prompt.
    """

    def __init__(self, history: Iterable[str]) -> None:
        keys = KeyBindings()
        keys.add("escape", "enter")(_new_line)
        self._session = PromptSession[str](
            [("bold", "> ")],
            history=InMemoryHistory(list(history)),
            key_bindings=keys,
            prompt_continuation="  ",
            interrupt_exception=InterruptedLineError,
        )

    async def read(self) -> str | None:
        """Returns a message; `None` for Ctrl-D. Raises `InterruptedLineError` for Ctrl-C."""
        with patch_stdout(raw=True):
            try:
                return await self._session.prompt_async(handle_sigint=False)
            except EOFError:
                return None


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")
