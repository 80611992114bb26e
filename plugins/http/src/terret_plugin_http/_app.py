"""The ASGI app: the table of routes, and what happens to a request before its handler."""

from collections.abc import Sequence
from urllib.parse import unquote

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ._bodies import Input, read_body, read_query
from ._calls import Call, Endpoint, tenant_of
from ._config import Role
from ._errors import HttpError, draining, http_error_of
from ._gate import refused
from ._site import Site
from ._turns import session_headers


def make_app(site: Site, endpoints: Sequence[Endpoint]) -> Router:
    """Returns the app that serves the endpoints; more routes may be added to it."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [Route(path, _Dispatch(site, found)) for path, found in paths.items()]
    # Nothing of starlette wraps `send`, through which every event of every client goes.
    return Router(routes, redirect_slashes=False, default=_not_found)


class _Dispatch:
    """Handles the requests of one path."""

    def __init__(self, site: Site, endpoints: dict[str, Endpoint]) -> None:
        self._site = site
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> ASGIApp:
        call = Call(self._site, request)
        try:
            return await self._answer(self._endpoint(request.method), call)
        except Exception as error:
            return self._refused(call, error)

    def _endpoint(self, method: str) -> Endpoint:
        found = self._endpoints.get("GET" if method == "HEAD" else method)
        if found is None:
            allowed = {"GET": "GET, HEAD"}
            listed = ", ".join(allowed.get(each, each) for each in self._endpoints)
            text = "the method is not one of this path"
            raise HttpError(405, "method", text, headers={"Allow": listed})
        return found

    async def _answer(self, endpoint: Endpoint, call: Call) -> ASGIApp:
        site, request = self._site, call.request
        call.names = _decoded(request.path_params)
        if endpoint.role is None:
            return await endpoint.handler(call)
        address = request.client.host if request.client else None
        call.caller = site.tokens.caller(request.headers.get("authorization"), address)
        call.caller.require(endpoint.role)
        if "agent" in call.names and endpoint.role is not Role.ADMIN:
            definition = site.definition(call.names["agent"])
            call.tenant = await tenant_of(call.caller, definition, call.headers)
        call.query = read_query(endpoint.query, request)
        if endpoint.body is not None:
            call.body = await self._body(endpoint.body, request)
        return await endpoint.handler(call)

    async def _body(self, model: type[Input], request: Request) -> Input:
        """Reads a body. Raises `HttpError`, also if it has not arrived when the service ends."""
        site = self._site
        with anyio.CancelScope() as scope:
            site.arriving.add(scope)
            try:
                return await read_body(model, request, site.config.max_body_bytes)
            finally:
                site.arriving.discard(scope)
        raise draining()

    def _refused(self, call: Call, error: Exception) -> Response:
        told = http_error_of(error)
        if told is not error and told.status == 500:
            request = call.request
            label = f"{request.method} {request.url.path} (error {told.fields['errorId']})"
            self._site.ctx.report(error, label=label)
        if call.session_id is not None:
            told.fields["sessionId"] = call.session_id
            told.headers |= session_headers(call.session_id)
        return refused(told)


def _decoded(names: dict[str, str]) -> dict[str, str]:
    try:
        return {name: unquote(value, errors="strict") for name, value in names.items()}
    except UnicodeDecodeError:
        raise HttpError(404, "not_found", "the path is not in UTF-8") from None


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        missing = HttpError(404, "not_found", "there is nothing here")
        await refused(missing)(scope, receive, send)
