"""What a provider says when it refuses: from any shape of error to the codes of Terret."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from terret_llm._outcomes import LlmFailure
from terret_llm._text import replace_surrogates

from ._json import parse_json

_MAX_TEXT = 500

_OVERFLOW = re.compile(
    r"maximum context|context.?(length|window|size|limit)|prompt is too long|input is too long"
    r"|too many (input )?tokens|exceeds? the (maximum|limit) .{0,40}tokens"
    r"|request entity too large",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient.?(quota|balance|funds|credit)|exceeded your current quota|billing"
    r"|payment required|credit balance|out of credits|quota (has been )?exceeded",
    re.IGNORECASE,
)
_MODEL = re.compile(
    r"model.{0,80}(not found|not exist|unknown|unsupported|not supported|not available)"
    r"|(unknown|invalid|no such) model|model_not_found|not_found_error model:",
    re.IGNORECASE | re.DOTALL,
)
_BUSY = re.compile(
    r"overload|server.?error|internal|unavailable|loading|busy|try again|temporar|upstream"
    r"|api_error",
    re.IGNORECASE,
)
_RATE = re.compile(r"rate.?limit|too many requests", re.IGNORECASE)
_AUTH = re.compile(r"authenticat|invalid_api_key|api key|permission|unauthorized", re.IGNORECASE)
_REFUSED = re.compile(r"invalid.?request|bad request|tool_use_failed|validation", re.IGNORECASE)
_SECRET = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|key|api[-_]?key)[-_][\w*.\-]{6,}|\bBearer\s+\S+|\bAIza[\w\-]{10,}"
    r"|(?<![^\s\"'])[^\s\"']*\*{3}[^\s\"']*",  # what a provider masked still shows both ends
    re.IGNORECASE,
)
_PAGE = re.compile(r"\s*<(!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]+)<", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class ProviderErrors:
    """Makes failures from a provider's errors.

    `where` names the provider in messages, usually the host. Each of `secrets`, and whatever looks
    like a key, is removed from what the provider said; the rest is cut to 500 characters.
    """

    where: str = "the model server"
    secrets: tuple[str, ...] = ()

    def of_response(self, status: int, headers: Mapping[str, str], body: bytes) -> LlmFailure:
        """The failure of a response with an error status. `headers` has lower-case names."""
        error = _error_of(_parsed(body))
        said = self.clean(_text_of(error))
        if 300 <= status < 400 and headers.get("location"):
            said = f"go to {self.clean(headers['location'], limit=200)}"
        return LlmFailure(
            f"{self.where} answered HTTP {status}" + (f": {said}" if said else ""),
            _code_of_status(status, f"{_labels_of(error)} {said}"),
            status,
            retry_after_ms(headers),
            headers.get("x-request-id") or headers.get("request-id"),
        )

    def of_error(self, error: object) -> LlmFailure:
        """The failure of an error object that came inside a response of HTTP status 200."""
        error = _error_of(error)
        said = self.clean(_text_of(error)) or "an error without text"
        status = _status_of(error)
        labels = f"{_labels_of(error)} {said}"
        code = _code_of_text(labels) if status is None else _code_of_status(status, labels)
        return LlmFailure(f"{self.where} reported: {said}", code, status)

    def malformed(self, complaint: str, data: bytes) -> LlmFailure:
        """The failure of a response that is not what the protocol says; shows its beginning."""
        shown = self.clean(_plain(data), limit=200)
        return LlmFailure(f"{self.where} sent {complaint}: {shown}", "MALFORMED_RESPONSE")

    def clean(self, text: str, *, limit: int = _MAX_TEXT) -> str:
        """`text` on one line, without secrets, at most `limit` characters."""
        for secret in self.secrets:
            text = text.replace(secret, "[removed]")
        text = _CONTROL.sub(" ", _SECRET.sub("[removed]", replace_surrogates(text))).strip()
        return text if len(text) <= limit else f"{text[: limit - 1]}…"


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """How long the provider asks to wait, from `retry-after-ms` or `retry-after`.

    A date is measured against the response's own `date`. What is no sensible wait is None.
    """
    exact = _seconds(headers.get("retry-after-ms"))
    if exact is not None:
        return round(exact)
    text = headers.get("retry-after")
    seconds = _seconds(text)
    if seconds is None and text is not None:
        until, now = _date(text), _date(headers.get("date")) or datetime.now(UTC)
        seconds = (until - now).total_seconds() if until is not None else None
    return None if seconds is None or seconds < 0 else round(seconds * 1000)


def _seconds(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text.strip(), re.ASCII):
        return None
    return float(text)


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _parsed(body: bytes) -> object:
    try:
        return parse_json(body)
    except ValueError:
        return _plain(body)


def _plain(body: bytes) -> str:
    """The beginning of a body; of a page in HTML its title, or else what is not markup."""
    text = body[: 4 * _MAX_TEXT].decode("utf-8", "replace")
    if not _PAGE.match(text):
        return text
    title = _TITLE.search(text)
    shown = title[1].strip() if title else ""
    return f"a page in HTML: {shown or ' '.join(_TAG.sub(' ', text).split())}"


def _error_of(value: object) -> object:
    """The object that describes the error, out of the wrappings in use."""
    if isinstance(value, list):
        return _error_of(value[0]) if value else ""
    if isinstance(value, Mapping):
        return next((value[key] for key in ("error", "detail", "errors") if value.get(key)), value)
    return value


def _text_of(error: object) -> str:
    if isinstance(error, list):
        return "; ".join(filter(None, map(_text_of, error[:5])))
    if isinstance(error, Mapping):
        texts = (error.get(key) for key in ("message", "msg", "detail", "error", "type", "code"))
        found = next((_text_of(text) for text in texts if text), "")
        return ": ".join(filter(None, (found, _upstream(error.get("metadata")))))
    return "" if error is None else str(error)


def _upstream(metadata: object) -> str:
    """What the server behind a router said, which the router's own words often leave out."""
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if not isinstance(raw, str):
        return ""
    return _text_of(_error_of(_parsed(raw.encode("utf-8", "replace"))))


def _labels_of(error: object) -> str:
    if not isinstance(error, Mapping):
        return ""
    return " ".join(str(error[key]) for key in ("type", "code") if isinstance(error.get(key), str))


def _status_of(error: object) -> int | None:
    if isinstance(error, Mapping):
        for key in ("status_code", "status", "code"):
            value = error.get(key)
            if isinstance(value, str) and value.isascii() and value.isdigit():
                value = int(value)
            if isinstance(value, int) and 400 <= value <= 599:
                return value
    return None


def _code_of_status(status: int, text: str) -> str:
    if status in (401, 403):
        return "AUTH"
    if status == 402 or (status in (400, 429) and _QUOTA.search(text)):
        return "QUOTA"
    if status == 429:
        return "RATE_LIMIT"
    if status in (408, 504):
        return "TIMEOUT"
    if status >= 500:
        return "SERVER"
    if status == 413 or (status in (400, 422) and _OVERFLOW.search(text)):
        return "CONTEXT_WINDOW_EXCEEDED"
    if status in (400, 404, 422) and _MODEL.search(text):
        return "UNKNOWN_MODEL"
    return "INVALID_REQUEST" if status in (400, 422) else f"HTTP_{status}"


def _code_of_text(text: str) -> str:
    return next((code for pattern, code in _BY_TEXT if pattern.search(text)), "UNKNOWN")


_BY_TEXT = (
    (_QUOTA, "QUOTA"),
    (_RATE, "RATE_LIMIT"),
    (_OVERFLOW, "CONTEXT_WINDOW_EXCEEDED"),
    (_BUSY, "SERVER"),
    (_MODEL, "UNKNOWN_MODEL"),
    (_AUTH, "AUTH"),
    (_REFUSED, "INVALID_REQUEST"),
)
