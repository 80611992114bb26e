"""JSON as models and their servers write it."""

import json
import re
from typing import Any, Final

from pydantic_core import from_json, to_json

from terret_llm._text import replace_surrogates

_EXACT: Final = 2**53 - 1
_HUGE: Final = 10**300
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def parse_json(data: bytes) -> object:
    """The JSON value of `data`, without lone surrogates. Raises ValueError.

    Raw control characters and bytes that are not UTF-8 are accepted, as servers send both; NaN and
    infinities are null.
    """
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError:
        pass
    text = data.decode("utf-8", "replace")
    try:
        return _scrubbed(json.loads(text, strict=False, parse_constant=lambda name: None))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump_json(value: object) -> bytes:
    """Compact JSON. Lone surrogates become U+FFFD; a message of the log may still hold one."""
    try:
        return to_json(value)
    except ValueError:
        return to_json(_scrubbed(value))


def object_text(arguments: str) -> str | None:
    """`arguments` as the JSON text of an object, or None if it is none. Blank and null are `{}`."""
    stripped = arguments.strip()
    if not stripped or stripped == "null":
        return "{}"
    try:
        value = from_json(arguments, allow_inf_nan=False)
    except ValueError:
        return None
    return arguments if isinstance(value, dict) else None


def without_lone_escapes(text: str) -> str:
    r"""JSON text in which `\uD800` to `\uDFFF` stand in pairs only; others are `\ufffd`."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda found: r"\ufffd" if found["lone"] else found[0], text)


def exact(value: Any) -> Any:
    """A copy of a server's JSON that a session log can hold: numbers beyond 2**53 are floats."""
    if isinstance(value, dict):
        return {key: exact(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [exact(each) for each in value]
    if isinstance(value, int) and not -_EXACT <= value <= _EXACT:
        return float(value) if -_HUGE <= value <= _HUGE else None
    return 0.0 if value == 0 and isinstance(value, float) else value


def _scrubbed(value: object) -> object:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list | tuple):
        return [_scrubbed(each) for each in value]
    if isinstance(value, dict):
        return {_scrubbed(key): _scrubbed(each) for key, each in value.items()}
    return value
