"""How a command ends when it does not do what was asked."""

from terret_context import TerretError

DONE = 0
FAILED = 1
REFUSED = 2
STOPPED = 4
INTERRUPTED = 130


class CommandError(TerretError):
    """A command cannot be carried out: its text is printed, and `code` is the exit code."""

    def __init__(self, message: str, *, code: int = REFUSED) -> None:
        super().__init__(message)
        self.code = code


class InterruptedLineError(TerretError):
    """Ctrl-C was typed at the prompt of a chat."""
