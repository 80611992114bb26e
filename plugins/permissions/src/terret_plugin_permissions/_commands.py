"""The simple commands of a shell text, as far as they can be told without running a shell."""

import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

_SEPARATORS: Final = frozenset(";&|\n")
_OPERATORS: Final = "();<>|&\n"


def all_commands(text: object, patterns: object) -> bool:
    """Whether every command of a text matches one of the patterns; false for what is not plain."""
    commands = _commands(text)
    return bool(commands) and all(_matches(each, patterns) for each in commands or ())


def any_command(text: object, patterns: object) -> bool:
    """Whether a command of a text matches one of the patterns; true for what is not plain."""
    commands = _commands(text)
    return commands is None or any(_matches(each, patterns) for each in commands)


def _matches(command: str, patterns: object) -> bool:
    listed = patterns if isinstance(patterns, Sequence) else ()
    return any(fnmatchcase(command, str(pattern)) for pattern in listed)


def _commands(text: object) -> list[str] | None:
    """Returns the commands, words joined by blanks, or `None`.

    Redirections, substitutions and groups are not plain: they do more than their words say.
    """
    if not isinstance(text, str) or "`" in text or "$(" in text:
        return None
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) <= _SEPARATORS:
                commands.append([])
            elif set(word) & set("()<>") and set(word) <= set(_OPERATORS):
                return None
            else:
                commands[-1].append(word)
    except ValueError:  # a quote that is not closed
        return None
    return [" ".join(words) for words in commands if words]
