"""What becomes of a log record before it is shown: plain values, no secrets, kept for a while."""

import re
from collections import deque
from collections.abc import Mapping
from typing import Final

from pydantic import Secret, SecretBytes, SecretStr

SECRETS: Final = (SecretStr, SecretBytes, Secret)
"""The types of values that are never shown."""
HIDDEN: Final = "[redacted]"
"""What is shown in their place."""

_SECRET_KEY: Final = re.compile(r"(apikey|token|secret|password|authorization|cookie)$")
_MIN_SECRET: Final = 8
_MAX_TEXT: Final = 2_000


class Records:
    """The last records of a harness, and what must never appear in one."""

    def __init__(self, size: int = 1_000) -> None:
        self._kept: deque[dict[str, object]] = deque(maxlen=size)
        self._secrets: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def hide(self, secrets: frozenset[str]) -> None:
        """Hides texts in all records to come, wherever they appear, if they are not too short."""
        self._secrets |= {text for text in secrets if len(text) >= _MIN_SECRET}
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._pattern = (
            re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        )

    def keep(self, record: dict[str, object]) -> None:
        """Keeps a record, in the place of the oldest one if there is no more room."""
        self._kept.append(record)

    def recent(self, n: int, *, fiber: int | None = None) -> list[dict[str, object]]:
        """Gives the last `n` records, oldest first; of the fiber with that uid, or all."""
        found = [r for r in self._kept if fiber is None or r.get("fiber") == fiber]
        return found[-n:] if n > 0 else []

    def clean(self, record: Mapping[str, object]) -> dict[str, object]:
        """Gives a record of plain values without secrets; objects are shown by a bounded `repr`."""
        return {key: self._value(key, value) for key, value in record.items()}

    def _value(self, key: str, value: object) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, SECRETS):
            return HIDDEN
        if isinstance(value, Mapping):
            return {str(name): self._value(str(name), item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(key, item) for item in value]
        if isinstance(value, str) and is_secret_key(key):
            return HIDDEN
        return self.text(value if isinstance(value, str) else _shown(value))

    def text(self, text: str) -> str:
        """Gives a text without the secrets in it."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text


def is_secret_key(key: str) -> bool:
    """Whether a text under this key is a secret, to go by the key."""
    return _SECRET_KEY.search(re.sub(r"[-_]", "", key).lower()) is not None


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # a record never fails because of a value in it
        return f"<{type(value).__name__}: repr failed with {type(error).__name__}>"
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
