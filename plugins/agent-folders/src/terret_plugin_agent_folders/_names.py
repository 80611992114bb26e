"""Names of agents."""

import re
from typing import Final

from ._errors import AgentNameError

RESERVED: Final = frozenset({"config"})
MAX_NAME: Final = 100


def check_name(name: str) -> str:
    """Returns the name. Raises `AgentNameError`."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise AgentNameError(name, "use lowercase words joined by single hyphens, such as my-shop")
    if name in RESERVED:
        raise AgentNameError(name, "this word is reserved")
    if len(name) > MAX_NAME:
        raise AgentNameError(name, f"it is longer than {MAX_NAME} characters")
    return name
