"""Requests to the service, and what their answers mean."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx2

from ._errors import ApiError, MalformedAnswerError, UnreachableError
from ._events import Event

T = TypeVar("T")
TRANSIENT: Final = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may work later."""


def path(*segments: str) -> str:
    """A path of the service; names and ids are one segment each, whatever they are made of."""
    return "".join(f"/{_quoted(segment)}" for segment in segments)


def _quoted(segment: str) -> str:
    """A segment of dots alone would mean a place above."""
    return quote(segment, safe="") if segment.strip(".") else "%2E" * len(segment)


async def call(
    http: httpx2.AsyncClient,
    method: str,
    url: str,
    read: Callable[[Mapping[str, Any]], T],
    *,
    json: Mapping[str, object] | None = None,
    params: Mapping[str, str] | None = None,
) -> T:
    """Makes a request and returns what `read` makes of the object it is answered with.

    Raises `ApiError`, `UnreachableError` and `MalformedAnswerError`.
    """
    try:
        response = await http.request(method, url, json=json, params=params)
    except httpx2.HTTPError as error:
        raise unreachable(error, method, url) from error
    if not response.is_success:
        raise api_error(response)
    body = _object(response)
    if body is None:
        raise MalformedAnswerError(f"no JSON object in answer to {method} {url}")
    try:
        return read(body)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"an answer to {method} {url} that cannot be read: {error!r}"
        raise MalformedAnswerError(problem) from error


def unreachable(error: httpx2.HTTPError, method: str, url: str) -> UnreachableError:
    return UnreachableError(method, url, str(error) or type(error).__name__)


def api_error(response: httpx2.Response) -> ApiError:
    """What a response that has been read says went wrong."""
    body = _object(response) or {"error": response.reason_phrase}
    return ApiError(response.status_code, body, response.headers.get("retry-after"))


def error_event(response: httpx2.Response) -> Event:
    """The one event that stands for an answer without a stream; it carries what the answer has."""
    if response.is_success:
        found = response.headers.get("content-type", "nothing")
        return Event.of({"type": "error", "error": f"no event stream but {found}"})
    error = api_error(response)
    told = {"error": error.error, "code": error.code, "status": error.status}
    return Event.of({**error.body, **told, "type": "error"})


def is_stream(response: httpx2.Response) -> bool:
    kind, _, _ = response.headers.get("content-type", "").partition(";")
    return response.status_code == 200 and kind.strip().lower() == "text/event-stream"


def _object(response: httpx2.Response) -> Mapping[str, Any] | None:
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None
