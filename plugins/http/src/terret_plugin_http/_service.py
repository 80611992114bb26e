"""The service `http`. What the app and the port are made of is imported with their first use."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send

from terret_agents import Agents
from terret_context import Context, Effect, Service
from terret_sessions import SESSION_PERSISTENCE, TOKEN_METER, Sessions

from ._auth import Tokens, is_loopback
from ._config import IN_PLACE, HttpConfig
from ._errors import UnsafeBindError
from ._neighbours import AGENT_FOLDERS, APPROVALS, LOOP_EVENTS, QUESTIONS
from ._status import Status


class PluginRoute(Protocol):
    """A route of starlette."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class OpenApp(Protocol):
    """The app once somebody uses it."""

    config: HttpConfig
    status: Status

    @property
    def asgi(self) -> ASGIApp: ...
    def show(self, routes: Sequence[PluginRoute]) -> None: ...
    async def drain(self, seconds: float) -> None: ...
    def end(self) -> None: ...


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
        self._open: OpenApp | None = None
        self._routes: tuple[PluginRoute, ...] = ()
        self._ready = anyio.Event()
        self._over = anyio.Event()
        self._draining = False

    def init(self) -> None:
        self.ctx.effect(lambda: self._end, label="requests")
        self.ctx.on_update(self._update)

    @property
    def status(self) -> Status:
        """How far the service is between start and end."""
        return Status.STARTING if self._open is None else self._open.status

    @property
    def app(self) -> ASGIApp:
        """The ASGI app. From its first use on, people are asked through its routes.

        Raises `MissingTokenError`.
        """
        if self._open is None:
            from ._opened import Opened

            self._open = Opened(self.ctx, self._config, self._tokens())
            self._open.show(self._routes)
            self.ctx.spawn(self._become_ready, name="ready")
        return self._open.asgi

    def mount(self, routes: Sequence[PluginRoute]) -> Effect:
        """Adds routes of the caller, which check roles themselves, as long as it is loaded."""

        def add() -> Callable[[], None]:
            self._show((*self._routes, *routes))
            return lambda: self._show(tuple(r for r in self._routes if r not in routes))

        return self.caller.effect(add, label="routes")

    async def serve(self, *, bound: Callable[[str], object] | None = None) -> None:
        """Answers requests at `host` and `port`; returns when a drain is over or the plugin ends.

        `bound` gets the address when requests are answered. Cancelling it closes the port at once;
        the signals of the process are left alone. Raises `UnsafeBindError`, `MissingTokenError`,
        `PortInUseError` or `BindError` before anything else. Needs asyncio.
        """
        from ._server import PortServer, address_of, bind

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
        if self._open is not None:
            await self._open.drain(seconds)
        self._over.set()

    async def _become_ready(self) -> None:
        await self.ctx.root.settle()
        if self._open is not None and self._open.status is Status.STARTING:
            self._open.status = Status.READY
        self._ready.set()

    def _tokens(self) -> Tokens:
        return Tokens(self._config.auth, os.environ)

    def _show(self, routes: tuple[PluginRoute, ...]) -> None:
        self._routes = routes
        if self._open is not None:
            self._open.show(routes)

    def _update(self, old: HttpConfig, new: HttpConfig) -> bool:
        """Applies new numbers; what the app was made of needs a new one."""
        fixed = HttpConfig.model_fields.keys() - IN_PLACE
        if any(getattr(old, name) != getattr(new, name) for name in fixed):
            return False
        self._config = new
        if self._open is not None:
            self._open.config = new
        return True

    def _end(self) -> None:
        if self._open is not None:
            self._open.end()
        self._ready.set()
        self._over.set()


def create_app(ctx: Context) -> ASGIApp:
    """Returns the ASGI app of the service `http`, to be mounted in another server.

    Raises `MissingTokenError`.
    """
    return ctx[Http].app
