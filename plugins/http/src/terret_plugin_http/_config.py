"""The settings of the entry `http`."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from terret_context import Config
from terret_sessions import SessionKey


class Role(StrEnum):
    """What a caller may do."""

    CHAT = "chat"
    DECIDE = "decide"
    ADMIN = "admin"


def _tenant(text: str) -> str:
    SessionKey(text, "-", "-", "-")
    return text


class TokenConfig(Config):
    """A further token."""

    env: str = Field(min_length=1)
    """The variable of the environment that has it."""
    roles: frozenset[Role] = Field(min_length=1)
    """What it is good for."""
    tenant: Annotated[str, AfterValidator(_tenant)] | None = None
    """The tenant of all requests with this token."""


class AuthConfig(Config):
    """Who may call, beside TERRET_API_TOKEN and TERRET_ADMIN_TOKEN."""

    tokens: tuple[TokenConfig, ...] = ()
    """Further tokens."""


class HttpConfig(Config):
    """Settings of the entry `http`; the numbers below `trustedProxies` change in place."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """The address that `terret serve` binds; another than a loopback one needs a token."""
    port: int = Field(default=8787, ge=0, le=65535)
    """The port that `terret serve` binds; 0 for any."""
    base_path: str = Field(default="", pattern=r"^(/[A-Za-z0-9._~-]+)*$")
    """The path below which the service is reached; links in answers begin with it."""
    auth: AuthConfig = AuthConfig()
    """Who may call."""
    allowed_hosts: tuple[str, ...] = ()
    """With tokens: the names by which the service may be called; empty for any."""
    allow_origins: tuple[str, ...] = ()
    """Other origins whose pages may call, such as `https://app.example`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of proxies whose X-Forwarded-For counts."""
    max_body_bytes: PositiveInt = 1024 * 1024
    """The longest body of a request."""
    max_concurrent_turns: PositiveInt = 64
    """How many sessions may run a turn at the same time."""
    max_wait_seconds: PositiveFloat = 600
    """How long a plain request waits for its turn."""
    heartbeat_seconds: PositiveFloat = 15
    """After how much silence a stream sends a comment."""
    slow_reader_bytes: PositiveInt = 1024 * 1024
    """How much may wait for the reader of a stream before it is cut off."""
    drain_seconds: NonNegativeFloat = 30
    """How long running turns may take to end when the service shuts down."""


IN_PLACE: Final = frozenset(
    (
        *("max_body_bytes", "max_concurrent_turns", "max_wait_seconds"),
        *("heartbeat_seconds", "slow_reader_bytes", "drain_seconds"),
    )
)
"""The settings that are looked up when they are needed; the app is made of the others."""
