from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace

from ._adapter import LlmAdapter
from ._chunks import FinishChunk
from ._errors import HarnessError, failure_of, normal_failure
from ._events import Chunks
from ._folds import folded
from ._messages import Message
from ._outcomes import Finish, LlmFailure
from ._registry import Route
from ._requests import GenerateOptions, is_loop_request, mark_loop_request
from ._sources import ModelSource


async def contained(
    stream: Callable[[GenerateOptions], Chunks], request: GenerateOptions
) -> Chunks:
    """An adapter's stream in which a failure is a finish, and in which the finish is the end.

    Cancellation is no failure and passes. A failing cleanup is raised.
    """
    try:
        chunks = _generator(stream(request), request.provider)
    except Exception as error:
        yield _failed(error)
        return
    try:
        while True:
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                text = f"the adapter of provider {request.provider!r} ended without a finish"
                yield FinishChunk(Finish.error(LlmFailure(text, "STREAM_CLOSED")))
                return
            except Exception as error:
                yield _failed(error)
                return
            if isinstance(chunk, FinishChunk):
                yield _normal(chunk)
                return
            yield chunk
    finally:
        await chunks.aclose()


async def failing(failure: LlmFailure) -> Chunks:
    """A stream that is nothing but this failure."""
    yield FinishChunk(Finish.error(failure))


def for_adapter(
    request: GenerateOptions, adapter: LlmAdapter, routes: Mapping[str, Route]
) -> GenerateOptions:
    """`request` without the replay state of messages that another adapter instance produced."""
    if not request.messages:
        return request
    owners = folded(request.messages, "replay state", _ReplayOwners).providers
    foreign = {name for name in owners if name not in routes or routes[name].adapter is not adapter}
    if not foreign:
        return request
    messages = tuple(
        message.without_replay_state() if _provider(message) in foreign else message
        for message in request.messages
    )
    stripped = replace(request, messages=messages)
    return mark_loop_request(stripped) if is_loop_request(request) else stripped


class _ReplayOwners:
    """The providers whose answers in a conversation have replay state."""

    def __init__(self) -> None:
        self.providers: set[str] = set()

    def take(self, message: Message) -> None:
        source = message.source
        if isinstance(source, ModelSource) and source.replay_state is not None:
            self.providers.add(source.provider)


def _provider(message: Message) -> str | None:
    source = message.source
    return source.provider if isinstance(source, ModelSource) else None


def _generator(chunks: Chunks, provider: str) -> Chunks:
    if not isinstance(chunks, AsyncGenerator):
        raise HarnessError(
            f"`stream` of the adapter of provider {provider!r} must be an async generator "
            f"function; it returned {type(chunks).__name__}",
            "INVALID_ADAPTER",
        )
    return chunks


def _normal(chunk: FinishChunk) -> FinishChunk:
    """The finish with a failure exactly where one belongs, as the log holds it."""
    finish = chunk.finish
    failure = normal_failure(finish.failure) if finish.failed else None
    if failure is finish.failure:
        return chunk
    return FinishChunk(Finish(finish.kind, failure, finish.replay_state))


def _failed(error: Exception) -> FinishChunk:
    failure = failure_of(error)
    aborted = failure.code == "ABORTED"
    return FinishChunk(Finish.aborted(failure) if aborted else Finish.error(failure))
