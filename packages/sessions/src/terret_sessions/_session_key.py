"""The id of a session that belongs to a tenant, an environment and an agent."""

import unicodedata
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

_SEPARATORS = "/*?[]:"
_MAX_SEGMENT = 100
_MAX_RAW = 200


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Whose conversation it is; `str(key)` is the session id, `parse` its inverse.

    Distinct keys have distinct ids. `raw_id` is what the client picked. Raises `ValueError` for a
    tenant, environment or agent that is empty, longer than 100 characters or holds one of
    `/ * ? [ ] :`, for a raw id that is not of 1 to 200 characters, and for control characters.
    """

    tenant: str
    environment: str
    agent: str
    raw_id: str

    def __post_init__(self) -> None:
        for name in ("tenant", "environment", "agent"):
            _check(name, getattr(self, name), _MAX_SEGMENT, _SEPARATORS)
        _check("session id", self.raw_id, _MAX_RAW, "")

    def __str__(self) -> str:
        parts = (self.tenant, self.environment, self.agent, self.raw_id)
        return ":".join(quote(part, safe="").replace("~", "%7E") for part in parts)

    @classmethod
    def parse(cls, session_id: str) -> Self:
        """Returns the key of a session id. Raises `ValueError` if it is not the id of one."""
        parts = session_id.split(":")
        if len(parts) == 4:
            key = cls(*(unquote(part, errors="strict") for part in parts))
            if str(key) == session_id:
                return key
        raise ValueError(f'"{session_id}" is not the id of a session key')


def _check(name: str, text: str, most: int, refused: str) -> None:
    if not 1 <= len(text) <= most:
        raise ValueError(f"the {name} has 1 to {most} characters, not {len(text)}")
    for character in text:
        if character in refused:
            raise ValueError(f'the {name} must not hold "{character}"')
        if unicodedata.category(character) in ("Cc", "Cs"):
            raise ValueError(f"the {name} must not hold U+{ord(character):04X}")
