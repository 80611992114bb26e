from collections.abc import Iterator

from terret_context import TerretError

from ._outcomes import LlmFailure
from ._text import replace_surrogates


class HarnessError(TerretError):
    """Base of the spine's errors. Route on `code`; the text is for people."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class LlmError(HarnessError):
    """A failed call; `failure` holds its facts."""

    def __init__(self, failure: LlmFailure) -> None:
        super().__init__(failure.message, failure.code)
        self.failure = failure


def failure_of(error: BaseException) -> LlmFailure:
    """The facts of `error`: its own, its code and text, or code UNKNOWN with the whole chain."""
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return failure_of(error.exceptions[0])
    if isinstance(error, LlmError):
        return normal_failure(error.failure)
    if isinstance(error, HarnessError):
        return LlmFailure(_text_of(error), error.code)
    return LlmFailure(error_chain(error), "UNKNOWN")


def normal_failure(failure: object) -> LlmFailure:
    """`failure`, if the log can hold it; else one of what can be used of it."""
    if not isinstance(failure, LlmFailure):
        return LlmFailure("the call failed, and the adapter does not say why", "UNKNOWN")
    status, wait, request = failure.status, failure.provider_retry_after_ms, failure.request_id
    normal = LlmFailure(
        replace_surrogates(str(failure.message)),
        failure.code if isinstance(failure.code, str) and failure.code else "UNKNOWN",
        status if type(status) is int else None,
        wait if type(wait) is int and wait >= 0 else None,
        request if isinstance(request, str) else None,
    )
    return failure if normal == failure else normal


def error_chain(error: BaseException) -> str:
    """`error` with its causes and, for groups, its members, on one line.

    Repeats are collapsed. Cycles, and objects whose `str()` fails, do no harm.
    """
    lines: list[str] = []
    for line in _chain(error, set()):
        if not lines or lines[-1] != line:
            lines.append(line)
    return ": caused by ".join(lines)


def _chain(error: BaseException, seen: set[int]) -> Iterator[str]:
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, BaseExceptionGroup):
            members = [": caused by ".join(_chain(each, seen)) for each in current.exceptions]
            yield f"{_name_and_text(current)} [{'; '.join(dict.fromkeys(filter(None, members)))}]"
        else:
            yield _name_and_text(current)
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)


def _name_and_text(error: BaseException) -> str:
    if isinstance(error, HarnessError):
        return _text_of(error)
    text = _text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"
