"""Finding the program in an answer."""

import re
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"(?P<fence>`{3,}) *(?P<label>[\w+-]*)[^`]*")
_LABELS: Final = frozenset({"python", "python3", "py"})


@dataclass(frozen=True, slots=True)
class Program:
    """The first block of Python in an answer; `others` counts those behind it."""

    code: str
    others: int = 0


def find_program(answer: str) -> Program | None:
    """Returns the program of an answer: its first fenced block that is labelled as Python.

    A block that the answer does not close ends with it.
    """
    programs: list[str] = []
    fence, is_python = "", False
    for line in answer.splitlines():
        text = line.strip()
        if fence:
            if text.startswith(fence) and not text.strip("`"):
                fence = ""
            elif is_python:
                programs[-1] += line + "\n"
        elif opening := _FENCE.fullmatch(text):
            fence, is_python = opening["fence"], opening["label"].lower() in _LABELS
            programs += [""] * is_python
    return Program(programs[0], len(programs) - 1) if programs else None
