"""Serves the agents of a project over HTTP: turns, events, approvals, sessions, tenants."""

from ._config import AuthConfig, HttpConfig, Limits, Role, TokenConfig
from ._errors import HttpError, MissingTokenError, UnsafeBindError
from ._service import Http, create_app
from ._site import Status

__all__ = [
    "AuthConfig",
    "Http",
    "HttpConfig",
    "HttpError",
    "Limits",
    "MissingTokenError",
    "Role",
    "Status",
    "TokenConfig",
    "UnsafeBindError",
    "create_app",
]
