"""What is checked of every request before it is looked at: its path, Host, Origin and sender."""

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from ._auth import is_loopback
from ._config import HttpConfig
from ._errors import HttpError

SESSION_ID: Final = "Terret-Session-Id"


def behind_gate(app: ASGIApp, config: HttpConfig, *, has_tokens: bool) -> ASGIApp:
    """Returns the app with the checks in front of it."""
    if config.allow_origins:
        app = CORSMiddleware(
            app,
            allow_origins=config.allow_origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),
            expose_headers=(SESSION_ID,),
        )
    gate: ASGIApp = _Gate(app, config, has_tokens)
    if config.trusted_proxies:
        # uvicorn and starlette write the type of an ASGI app differently.
        trusted = list(config.trusted_proxies)
        return cast(ASGIApp, ProxyHeadersMiddleware(cast(Any, gate), trusted))
    return gate


class _Gate:
    """Refuses foreign hosts and origins, and takes the base path off."""

    def __init__(self, app: ASGIApp, config: HttpConfig, has_tokens: bool) -> None:
        self._app = app
        self._base_path = config.base_path
        self._origins = frozenset(config.allow_origins)
        self._hosts = frozenset(host.lower() for host in config.allowed_hosts)
        self._has_tokens = has_tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        try:
            self._check(Headers(scope=scope))
        except HttpError as refusal:
            return await refused(refusal)(scope, receive, send)
        return await self._app(self._routed(scope), receive, send)

    def _check(self, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "")
        name = _name_of(host)
        allowed = name in self._hosts if self._has_tokens else is_loopback(name)
        if not allowed and (self._hosts or not self._has_tokens):
            raise HttpError(403, "origin_refused", f'the service is not called "{name}"')
        origin = headers.get("origin")
        if origin is None or origin in self._origins:
            return
        if origin.partition("://")[2].lower() != host.lower():
            raise HttpError(403, "origin_refused", "pages of other origins may not call")

    def _routed(self, scope: Scope) -> Scope:
        """Returns the scope with a path in which encoded slashes stay parts of their segment."""
        root = scope.get("root_path", "")
        path = scope.get("raw_path", b"").decode("ascii", "replace") or quote(scope["path"])
        inner = path.removeprefix(root) if path.startswith(f"{root}/") else path
        base = self._base_path
        if base and not root.endswith(base) and (inner == base or inner.startswith(f"{base}/")):
            root, inner = root + base, inner.removeprefix(base) or "/"
        return {**scope, "path": root + inner, "root_path": root}


def _name_of(host: str) -> str:
    """Returns a Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def refused(error: HttpError) -> Response:
    """Returns the answer that tells of an error."""
    body = {"error": str(error), "code": error.code, **error.fields}
    return JSONResponse(body, error.status, {"Cache-Control": "no-store", **error.headers})
