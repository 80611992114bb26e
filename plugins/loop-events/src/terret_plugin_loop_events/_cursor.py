"""Places in the stream of a session."""

import re
from typing import Final, NamedTuple

from terret_context import TerretError


class BadCursorError(TerretError, ValueError):
    """A text is no cursor of a session."""

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is no cursor of this session: {problem}")


class Cursor(NamedTuple):
    """The place of an output: the seq of the log event it comes from, and its number there.

    Cursors are ordered, and `str(cursor)` is `SEQ.K`.
    """

    seq: int
    number: int = 0

    def __str__(self) -> str:
        return f"{self.seq}.{self.number}"

    @classmethod
    def parse(cls, text: str, *, length: int) -> "Cursor":
        """Reads `SEQ.K`, or `0` for the beginning, as a place in a log of that many events.

        Raises `BadCursorError` for anything else, and for a place behind the end.
        """
        if text == "0":
            return START
        found = re.fullmatch(r"(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,8})", text, re.ASCII)
        if found is None:
            raise BadCursorError(text, "write SEQ.K, or 0 for the beginning")
        if int(found[1]) >= length:
            raise BadCursorError(text, f"the log ends at {length - 1}")
        return cls(int(found[1]), int(found[2]))


START: Final = Cursor(-1)
"""In front of everything."""
