"""Bodies and queries of requests: what is accepted, and how a fault is called."""

import unicodedata
from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from terret_sessions import MAX_DEPTH, LosslessJsonError, copy_json

from ._errors import HttpError


def _spoken(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


def _plain_id(text: str) -> str:
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise ValueError("it holds a control character")
    return text


Id = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_plain_id)]


class Input(BaseModel):
    """The base of bodies and queries; `faults` has the code of a wrong field, by its name."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, strict=True)
    fault: ClassVar[str] = "bad_json"
    faults: ClassVar[Mapping[str, str]] = {}


InputT = TypeVar("InputT", bound=Input)


class MessageBody(Input):
    """A message for an agent. Further fields are for the agent's session hook only."""

    model_config = ConfigDict(extra="allow")
    fault = "bad_message"
    faults: ClassVar[Mapping[str, str]] = {"sessionId": "bad_session_id"}

    message: Annotated[str, AfterValidator(_spoken)]
    session_id: Id | None = None
    """The conversation; a fresh one without it."""
    message_id: Id | None = None
    """Names the message: sent again, it joins the turn of the first."""
    when_busy: Literal["queue", "steer", "reject"] = "queue"
    """What happens while a turn runs: the next turn, the running one, or a refusal."""


class ApproveBody(Input):
    """Lets a call run, with other arguments where its rule allows that."""

    faults: ClassVar[Mapping[str, str]] = {"args": "invalid_args"}

    args: dict[str, Any] | None = None
    note: str | None = None
    remember: bool = False
    """Whether equal calls may run for the rest of the session without being asked about."""


class DenyBody(Input):
    """Keeps a call from running and ends the turn."""

    note: str | None = None
    """What the model reads."""


class AnswerBody(Input):
    """Answers a question."""

    fault = "bad_answer"

    answer: Annotated[str, AfterValidator(_spoken)]


class CancelBody(Input):
    """Stops the turn that runs."""

    keep_inbox: bool = False
    """Whether messages that wait stay, until another one wakes the agent."""
    wait: bool = True
    """Whether the answer comes when the turn has ended."""


class Query(Input):
    """The base of queries, whose values are texts."""

    model_config = ConfigDict(strict=False)
    fault = "bad_query"


class NoQuery(Query):
    """Nothing is asked for."""


class DecisionQuery(Query):
    """Whether the answer comes when the turn has, or at once."""

    wait: bool = True


class PageQuery(Query):
    """A part of a list."""

    faults: ClassVar[Mapping[str, str]] = {"cursor": "bad_cursor"}

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None


class ModelsQuery(Query):
    """Whose models are listed too."""

    provider: str | None = None


class EventsQuery(Query):
    """Which events, from where on, and for how long; the header Last-Event-ID beats `after`."""

    after: str | None = None
    follow: Literal["session", "turn"] = "session"
    protocol: str = "v1"


def read_query(model: type[InputT], request: Request) -> InputT:
    """Returns the query of a request. Raises `HttpError`."""
    return _checked(model, dict(request.query_params))


async def read_body(model: type[InputT], request: Request, limit: int) -> InputT:
    """Returns the body of a request; without one, its defaults. Raises `HttpError`."""
    raw = await _read(request, limit)
    if not raw:
        return _checked(model, {})
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(415, "media_type", "the body has the Content-Type application/json")
    try:
        body = from_json(raw, allow_inf_nan=False)
        copy_json(body, max_depth=MAX_DEPTH - 1)  # it goes into an event of the log
    except LosslessJsonError as error:
        raise HttpError(400, "bad_json", str(error)) from None
    except ValueError:
        raise HttpError(400, "bad_json", "the body is no JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise HttpError(400, "bad_json", "the body is no JSON object")
    return _checked(model, body)


async def _read(request: Request, limit: int) -> bytes:
    too_large = HttpError(413, "too_large", f"the body is longer than {limit} bytes")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    raw = bytearray()
    try:
        async with aclosing(request.stream()) as chunks:
            async for chunk in chunks:
                raw += chunk
                if len(raw) > limit:
                    raise too_large
    except ClientDisconnect:
        raise HttpError(400, "bad_json", "the body did not arrive") from None
    return bytes(raw)


def _checked(model: type[InputT], data: Mapping[str, Any]) -> InputT:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = str(fault["loc"][0]) if fault["loc"] else ""
        place = "/".join(map(str, fault["loc"]))
        code = model.faults.get(field, model.fault)
        reason = fault["msg"].removeprefix("Value error, ")
        raise HttpError(400, code, f"{place}: {reason}") from None
