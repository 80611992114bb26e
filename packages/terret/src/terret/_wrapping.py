"""Text that comes in pieces, in lines that break between words."""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

_PARTS: Final = re.compile(r"\n|[^\S\n]+|\S+")
_FENCE: Final = "```"


class Wrapping:
    """Breaks the lines of a text where a terminal would break words.

    A word is held back until its end is known. Blocks of code stay as they are, so that they can
    be copied. `width` is asked for each piece: a window may change.
    """

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._limit = width()
        self._line = ""  # what stands on the line so far, unbroken
        self._column = 0
        self._gap = ""
        self._word = ""
        self._is_code = False

    def feed(self, piece: str) -> str:
        """Takes a piece and returns what can be shown."""
        self._limit = self._width()
        return "".join(map(self._take, _PARTS.findall(piece)))

    def end(self) -> str:
        """Returns what was held back; the text is over."""
        rest = self._place()
        self._line, self._column, self._gap, self._is_code = "", 0, "", False
        return rest

    def _take(self, part: str) -> str:
        if part == "\n":
            placed = self._place() + self._gap + "\n"
            if self._line.lstrip().startswith(_FENCE):
                self._is_code = not self._is_code
            self._line, self._column, self._gap = "", 0, ""
            return placed
        if not part.isspace():
            self._word += part
            return ""
        placed = self._place()
        self._gap += part
        return placed

    def _place(self) -> str:
        """Puts the word on this line, or on the next one if it does not fit."""
        if not self._word:
            return ""
        gap, word = self._gap, self._word
        self._gap = self._word = ""
        self._line += gap + word
        needed = _columns(word)
        wide = self._column + _columns(gap) + needed
        if self._column and wide > self._limit and not self._is_code:
            self._column = needed
            return f"\n{word}"
        self._column = wide
        return gap + word


def _columns(text: str) -> int:
    """Returns how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )
