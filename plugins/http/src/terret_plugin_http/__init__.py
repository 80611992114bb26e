"""Serves the agents of a project over HTTP: turns, events, approvals, sessions, tenants."""

from ._config import AuthConfig, HttpConfig, Role, TokenConfig
from ._errors import BindError, HttpError, MissingTokenError, PortInUseError, UnsafeBindError
from ._service import Http, create_app
from ._status import Status

__all__ = [
    "AuthConfig",
    "BindError",
    "Http",
    "HttpConfig",
    "HttpError",
    "MissingTokenError",
    "PortInUseError",
    "Role",
    "Status",
    "TokenConfig",
    "UnsafeBindError",
    "create_app",
]
