"""The routes as a table, and what a handler gets."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from inspect import isawaitable
from typing import Final, TypeAlias

from pydantic import BaseModel
from starlette.requests import Request
from starlette.types import ASGIApp

from terret_sessions import SessionKey

from ._auth import Caller
from ._bodies import Input, InputT, NoQuery
from ._config import Role
from ._errors import HttpError
from ._neighbours import Definition, Hook
from ._site import Site


@dataclass(slots=True)
class Call:
    """A request on its way: who calls, for whom, and what was sent."""

    site: Site
    request: Request
    caller: Caller | None = None
    """Who calls; nobody in particular where no role is needed."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The decoded names in the path."""
    tenant: str = ""
    """Whose request it is; empty where no agent is in the path."""
    session_id: str | None = None
    """What the client calls the session, once that is known."""
    query: Input = field(default_factory=NoQuery)
    body: Input | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with lowercase names."""
        return dict(self.request.headers)

    @property
    def by(self) -> Caller:
        """Who calls a route that needs a role."""
        assert self.caller is not None
        return self.caller

    def queried(self, model: type[InputT]) -> InputT:
        """Returns the query, which is of the model that the table names."""
        assert isinstance(self.query, model)
        return self.query

    def sent(self, model: type[InputT]) -> InputT:
        """Returns the body, which is of the model that the table names."""
        assert isinstance(self.body, model)
        return self.body

    def owns(self, key: SessionKey) -> bool:
        """Tells whether a session is one of the agent in the path and of the request's tenant."""
        mine = (self.tenant, self.site.folders.environment, self.names["agent"])
        return (key.tenant, key.environment, key.agent) == mine

    def key(self, raw_id: str | None = None) -> SessionKey:
        """Returns the key of a session, by default of that in the path. Raises `HttpError`."""
        agent, environment = self.names["agent"], self.site.folders.environment
        raw_id = raw_id or self.names["session"]
        try:
            key = SessionKey(self.tenant, environment, agent, raw_id)
        except ValueError as error:
            raise HttpError(400, "bad_session_id", str(error)) from None
        self.session_id = raw_id
        return key


Handler: TypeAlias = Callable[[Call], Awaitable[ASGIApp]]


Answers: TypeAlias = Mapping[int, tuple[type[BaseModel], ...] | str]
"""The models of answers by status; a text is a media type, () no content."""

COMMON_ERRORS: Final = (400, 401, 403, 404, 500, 503)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route: what it takes, who may use it, and what it answers.

    Attributes:
        method: GET, POST or DELETE.
        path: with `{names}` of single segments.
        handler: answers a call; raises `HttpError`, or what `http_error_of` knows.
        summary: one line for the OpenAPI document.
        role: what the caller needs; nobody is asked who they are without one.
        answers: what it answers when it does as asked.
        errors: the statuses of errors beyond the common ones.
        query: the model of the query.
        body: the model of the body.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    role: Role | None
    answers: Answers
    _: KW_ONLY
    errors: tuple[int, ...] = ()
    query: type[Input] = NoQuery
    body: type[Input] | None = None


async def tenant_of(caller: Caller, definition: Definition, headers: Mapping[str, str]) -> str:
    """Returns whose request it is: the token says so, else the agent's hook. Raises `HttpError`."""
    if caller.tenant is not None:
        return caller.tenant
    if definition.tenant_for is None:
        return "default"
    tenant = await ask_hook(definition.tenant_for, headers)
    if tenant is None:
        raise HttpError(401, "unknown_tenant", "the headers name no tenant")
    try:
        SessionKey(tenant, "-", "-", "-")
    except ValueError as error:
        raise HttpError(400, "bad_tenant", str(error)) from None
    return tenant


async def ask_hook(hook: Hook, argument: Mapping[str, object]) -> str | None:
    """Returns what a hook of an agent says. Raises `TypeError` if that is no text."""
    answer = hook(argument)
    text = await answer if isawaitable(answer) else answer
    if text is not None and not isinstance(text, str):
        raise TypeError(f"a hook of the agent returned {type(text).__name__}; accepted: str, None")
    return text
