"""The app in use: the table of routes, the checks in front of it, and its end."""

from collections.abc import Sequence
from typing import Any, Final

from starlette.routing import Router
from starlette.types import ASGIApp

from terret_context import Context

from . import _catalogue, _decisions, _events, _messages, _session_list, _sessions
from ._app import make_app
from ._auth import Tokens
from ._calls import Endpoint
from ._config import HttpConfig
from ._draining import drain, end
from ._gate import behind_gate
from ._links import Links
from ._neighbours import APPROVALS, QUESTIONS
from ._openapi import endpoint_of
from ._site import Site
from ._status import Status

_TABLE: Final[tuple[Endpoint, ...]] = (
    *_messages.ENDPOINTS,
    *_session_list.ENDPOINTS,
    *_sessions.ENDPOINTS,
    *_events.ENDPOINTS,
    *_decisions.ENDPOINTS,
    *_catalogue.ENDPOINTS,
)
ENDPOINTS: Final = (*_TABLE, endpoint_of(_TABLE))


class Opened:
    """The app, made of the settings at its first use; people are asked through it from then on."""

    def __init__(self, ctx: Context, config: HttpConfig, tokens: Tokens) -> None:
        self._site = Site(ctx, config, tokens, Links(config.base_path))
        self._router: Router = make_app(self._site, ENDPOINTS)
        self._own = tuple(self._router.routes)
        self._asgi = behind_gate(self._router, config, has_tokens=bool(tokens))
        if (approvals := ctx.get(APPROVALS)) is not None:
            approvals.await_decisions()
        if (questions := ctx.get(QUESTIONS)) is not None:
            questions.await_answers()

    @property
    def asgi(self) -> ASGIApp:
        """The app with its checks."""
        return self._asgi

    @property
    def config(self) -> HttpConfig:
        """The settings; another one counts from the next request on."""
        return self._site.config

    @config.setter
    def config(self, config: HttpConfig) -> None:
        self._site.config = config

    @property
    def status(self) -> Status:
        """How far the service is."""
        return self._site.status

    @status.setter
    def status(self, status: Status) -> None:
        self._site.status = status

    def show(self, routes: Sequence[Any]) -> None:
        """Serves these routes beside its own."""
        self._router.routes[:] = [*self._own, *routes]

    async def drain(self, seconds: float) -> None:
        """Ends the service in order."""
        await drain(self._site, seconds)

    def end(self) -> None:
        """Lets everybody go who waits."""
        end(self._site)
