"""Who calls: tokens, what they are good for, and callers of this machine."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest
from ipaddress import ip_address
from typing import Final

from ._config import AuthConfig, Role
from ._errors import HttpError, MissingTokenError

API_TOKEN: Final = "TERRET_API_TOKEN"
ADMIN_TOKEN: Final = "TERRET_ADMIN_TOKEN"
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="terret"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may do something: `name` stands in the log, `tenant` fixes the tenant."""

    name: str
    roles: frozenset[Role]
    tenant: str | None = None

    def require(self, role: Role) -> None:
        """Raises `HttpError` 403 for a role that the caller does not have."""
        if role not in self.roles:
            raise HttpError(403, "forbidden", f'this needs a token with the role "{role}"')


_LOCAL: Final = Caller("local", frozenset(Role))


class Tokens:
    """The tokens of the environment. Without any, callers of this machine may do everything.

    Raises `MissingTokenError` for a token of the configuration that is not there.
    """

    def __init__(self, config: AuthConfig, environment: Mapping[str, str]) -> None:
        self._callers: list[tuple[bytes, Caller]] = []
        everybody = (
            (API_TOKEN, Caller("api", frozenset((Role.CHAT, Role.DECIDE)))),
            (ADMIN_TOKEN, Caller("admin", frozenset(Role))),
        )
        for name, caller in everybody:
            if secret := environment.get(name):
                self._callers.append((secret.encode(), caller))
        for token in config.tokens:
            if not (secret := environment.get(token.env)):
                raise MissingTokenError(token.env)
            caller = Caller(token.env, token.roles, token.tenant)
            self._callers.append((secret.encode(), caller))

    @property
    def callers(self) -> tuple[Caller, ...]:
        """Whom there are tokens for."""
        return tuple(caller for _, caller in self._callers)

    def __bool__(self) -> bool:
        return bool(self._callers)

    def caller(self, authorization: str | None, address: str | None) -> Caller:
        """Returns who shows this header from this address. Raises `HttpError` 401."""
        if not self._callers:
            if address is None or is_loopback(address):
                return _LOCAL
            raise HttpError(401, "unauthorized", "no token is set up", headers=_CHALLENGE)
        found = None
        presented = _presented(authorization or "")
        for secret, caller in self._callers:  # all of them, so that the time tells nothing
            if compare_digest(secret, presented):
                found = caller
        if found is None:
            raise HttpError(401, "unauthorized", "a valid token is needed", headers=_CHALLENGE)
        return found


def is_loopback(host: str) -> bool:
    """Tells whether a name or an address is one of this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _presented(authorization: str) -> bytes:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("latin-1")  # the bytes that were sent
    if scheme.lower() == "basic":
        try:
            return b64decode(value.strip(), validate=True).partition(b":")[2]
        except Base64Error:
            return b""
    return b""
