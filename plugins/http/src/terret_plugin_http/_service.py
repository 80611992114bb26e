"""The service `http`: the app, the port, and the end."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import anyio
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp

from terret_agents import Agents
from terret_context import Context, Effect, Service
from terret_sessions import SESSION_PERSISTENCE, TOKEN_METER, Sessions

from . import _catalogue, _decisions, _events, _messages, _session_list, _sessions
from ._app import make_app
from ._auth import Tokens, is_loopback
from ._calls import Endpoint
from ._config import IN_PLACE, HttpConfig
from ._draining import drain, end
from ._errors import UnsafeBindError
from ._gate import behind_gate
from ._links import Links
from ._neighbours import AGENT_FOLDERS, APPROVALS, LOOP_EVENTS, QUESTIONS
from ._openapi import endpoint_of
from ._server import PortServer, address_of, bind
from ._site import Site, Status

_TABLE: Final[tuple[Endpoint, ...]] = (
    *_messages.ENDPOINTS,
    *_session_list.ENDPOINTS,
    *_sessions.ENDPOINTS,
    *_events.ENDPOINTS,
    *_decisions.ENDPOINTS,
    *_catalogue.ENDPOINTS,
)
ENDPOINTS: Final = (*_TABLE, endpoint_of(_TABLE))


class Http(
    Service,
    key="http",
    config=HttpConfig,
    inject=(Agents, Sessions, LOOP_EVENTS, AGENT_FOLDERS),
    optional=(SESSION_PERSISTENCE, TOKEN_METER, APPROVALS, QUESTIONS),
):
    """Serves the agents of a project over HTTP.

    Mounting it opens no port and answers nobody: `serve` does, or `app` in another server.
    """

    def __init__(self, ctx: Context, config: HttpConfig) -> None:
        super().__init__(ctx, config)
        self._config = config
        self._site: Site | None = None
        self._app: Router | None = None
        self._gated: ASGIApp | None = None
        self._routes: list[BaseRoute] = []
        self._ready = anyio.Event()
        self._over = anyio.Event()
        self._draining = False

    def init(self) -> None:
        self.ctx.effect(lambda: self._end, label="requests")
        self.ctx.on_update(self._update)

    @property
    def status(self) -> Status:
        """How far the service is between start and end."""
        return Status.STARTING if self._site is None else self._site.status

    @property
    def app(self) -> ASGIApp:
        """The ASGI app. From its first use on, people are asked through its routes.

        Raises `MissingTokenError`.
        """
        if self._gated is None:
            site = Site(self.ctx, self._config, self._tokens(), Links(self._config.base_path))
            self._site = site
            self._app = make_app(site, ENDPOINTS)
            self._app.routes.extend(self._routes)
            self._gated = behind_gate(self._app, self._config, has_tokens=bool(site.tokens))
            if (approvals := self.ctx.get(APPROVALS)) is not None:
                approvals.await_decisions()
            if (questions := self.ctx.get(QUESTIONS)) is not None:
                questions.await_answers()
            self.ctx.spawn(self._become_ready, name="ready")
        return self._gated

    def mount(self, routes: Sequence[BaseRoute]) -> Effect:
        """Adds routes of the caller, which check roles themselves, as long as it is loaded."""

        def add() -> Callable[[], None]:
            self._change_routes([*self._routes, *routes])
            return lambda: self._change_routes([r for r in self._routes if r not in routes])

        return self.caller.effect(add, label="routes")

    async def serve(self, *, bound: Callable[[str], object] | None = None) -> None:
        """Answers requests at `host` and `port`; returns when a drain is over or the plugin ends.

        `bound` gets the address when requests are answered. Cancelling it closes the port at once;
        the signals of the process are left alone. Raises `UnsafeBindError`, `MissingTokenError`,
        `PortInUseError` or `BindError` before anything else. Needs asyncio.
        """
        host, port = self._config.host, self._config.port
        if not is_loopback(host) and not self._tokens():
            raise UnsafeBindError(host)
        with bind(host, port) as sock:
            server = PortServer(self.app, sock)
            async with anyio.create_task_group() as group:
                group.start_soon(server.run)
                await server.started()
                await self._ready.wait()
                if bound is not None:
                    bound(address_of(sock))
                await self._over.wait()
                server.stop()

    async def drain(self, seconds: float | None = None) -> None:
        """Ends the service in order: no new messages, decisions still count; idempotent.

        Running turns get so long, by default `drainSeconds`; then they are stopped. Returns when
        nothing runs any more, every log is durable and the streams have ended.
        """
        if not self._draining:
            self._draining = True
            patience = self._config.drain_seconds if seconds is None else seconds
            self.ctx.spawn(partial(self._drain, patience), name="drain")
        await self._over.wait()

    async def _drain(self, seconds: float) -> None:
        if self._site is not None:
            await drain(self._site, seconds)
        self._over.set()

    async def _become_ready(self) -> None:
        await self.ctx.root.settle()
        if self._site is not None and self._site.status is Status.STARTING:
            self._site.status = Status.READY
        self._ready.set()

    def _tokens(self) -> Tokens:
        return Tokens(self._config.auth, os.environ)

    def _change_routes(self, routes: list[BaseRoute]) -> None:
        if self._app is not None:
            own = [route for route in self._app.routes if route not in self._routes]
            self._app.routes[:] = [*own, *routes]
        self._routes = routes

    def _update(self, old: HttpConfig, new: HttpConfig) -> bool:
        """Applies new numbers; what the app was made of needs a new one."""
        fixed = HttpConfig.model_fields.keys() - IN_PLACE
        if any(getattr(old, name) != getattr(new, name) for name in fixed):
            return False
        self._config = new
        if self._site is not None:
            self._site.config = new
        return True

    def _end(self) -> None:
        if self._site is not None:
            end(self._site)
        self._ready.set()
        self._over.set()


def create_app(ctx: Context) -> ASGIApp:
    """Returns the ASGI app of the service `http`, to be mounted in another server.

    Raises `MissingTokenError`.
    """
    return ctx[Http].app
