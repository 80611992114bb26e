import re

_OPENS = re.compile(
    r"^[ \t]*(?:<(?:\uff5cDSML\uff5c)?(?:tool_calls?|function_calls?|invoke|function=)\b"
    r"|<\uff5ctool\u2581calls\u2581begin\uff5c>|<\|tool_calls?(?:_section)?_begin\|>|\[TOOL_CALLS\])",
    re.MULTILINE,
)
_CLOSES = re.compile(
    r"(?:</(?:\uff5cDSML\uff5c)?(?:tool_calls?|function_calls?|invoke|function)>"
    r"|<\uff5ctool\u2581calls\u2581end\uff5c>|<\|tool_calls?(?:_section)?_end\|>|\[TOOL_CALLS\][^\n]*[\]}])$"
)


def is_leaked_call(text: str) -> bool:
    """Whether a text ends with a tool call in the markup of a model's template.

    An example in a code block, or in front of more text, is none.
    """
    text = text.rstrip()
    if not text.endswith((">", "]", "}")) or _CLOSES.search(text) is None:
        return False
    opened = _OPENS.search(text)
    return opened is not None and text.count("```", 0, opened.start()) % 2 == 0
