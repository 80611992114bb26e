"""Texts of a script that refer to what the run itself has said."""

import re
from collections.abc import Iterable

from terret_llm import Message, ToolResultBlock

_PLACEHOLDER = re.compile(r"\{\{last:(?P<pattern>.*?)\}\}(?!\})", re.DOTALL)


class PlaceholderError(AssertionError):
    """A placeholder matches nothing in the conversation, or is no regular expression."""

    def __init__(self, pattern: str, reason: str) -> None:
        self.pattern = pattern
        super().__init__(f"{{{{last:{pattern}}}}} cannot be filled in: {reason}")


def filled(text: str, messages: Iterable[Message]) -> str:
    """Replaces each `{{last:REGEX}}` by the last match in the messages of a request.

    The first group counts, if the expression has one. It may end in a quantifier, as in
    `{{last:[0-9]{6}}}`. Raises `PlaceholderError`.
    """
    if "{{last:" not in text:
        return text
    said = "\n".join(_text(message) for message in messages)
    return _PLACEHOLDER.sub(lambda found: _last(found["pattern"], said), text)


def _last(pattern: str, said: str) -> str:
    try:
        matches = list(re.finditer(pattern, said))
    except re.error as error:
        raise PlaceholderError(pattern, str(error)) from error
    if not matches:
        raise PlaceholderError(pattern, "nothing in the messages of the request matches")
    last = matches[-1]
    return str(last[1] if last.re.groups else last[0])


def _text(message: Message) -> str:
    blocks = [block for block in message.content if isinstance(block, ToolResultBlock)]
    calls = [call.arguments for call in message.tool_calls]
    return "\n".join([message.text, *(block.text for block in blocks), *calls])
