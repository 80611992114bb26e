"""The ASGI app: the table of routes, and what happens to a request before its handler."""

from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ._bodies import read_body, read_query
from ._calls import Call, Endpoint, tenant_of
from ._config import Role
from ._errors import HttpError, http_error_of
from ._site import Site


def make_app(site: Site, endpoints: Sequence[Endpoint]) -> Starlette:
    """Returns the app that serves the endpoints; more routes may be added to its router."""
    paths: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, []).append(endpoint)
    routes = [_route(site, path, found) for path, found in paths.items()]
    return Starlette(routes=routes, exception_handlers={HTTPException: _not_routed})


def _route(site: Site, path: str, endpoints: Iterable[Endpoint]) -> Route:
    by_method = {endpoint.method: endpoint for endpoint in endpoints}
    return Route(path, _Dispatch(site, by_method), methods=list(by_method))


class _Dispatch:
    """Handles the requests of one path."""

    def __init__(self, site: Site, endpoints: dict[str, Endpoint]) -> None:
        self._site = site
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        call = Call(self._site, request)
        method = "GET" if request.method == "HEAD" else request.method
        try:
            response = await self._answer(self._endpoints[method], call)
        except Exception as error:
            response = self._refused(call, error)
        await response(scope, receive, send)

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
            call.body = await read_body(endpoint.body, request, site.limits.max_body_bytes)
        return await endpoint.handler(call)

    def _refused(self, call: Call, error: Exception) -> Response:
        told = http_error_of(error)
        if told is not error and told.status == 500:
            request = call.request
            label = f"{request.method} {request.url.path} (error {told.fields['errorId']})"
            self._site.ctx.report(error, label=label)
        if call.session_id is not None:
            told.fields.setdefault("sessionId", call.session_id)
        return told.response()


def _decoded(names: dict[str, str]) -> dict[str, str]:
    try:
        return {name: unquote(value, errors="strict") for name, value in names.items()}
    except UnicodeDecodeError:
        raise HttpError(404, "not_found", "the path is not in UTF-8") from None


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method"}.get(error.status_code, "internal")
    text = {404: "there is nothing here", 405: "the method is not one of this path"}
    told = text.get(error.status_code, error.detail)
    return HttpError(error.status_code, code, told, headers=error.headers).response()
