"""Requests through the service: routing, middleware, containment."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from echo_models import STOP, Echo, collected, request, running
from terret_context import Context, Next, plugin
from terret_llm import (
    STREAM,
    BlockEnd,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    HarnessError,
    Llm,
    LlmAdapter,
    LlmCallConfig,
    LlmError,
    LlmFailure,
    Message,
    ModelSource,
    NoAdapterError,
    TextBlock,
    TextDelta,
    chunk_from_wire,
    create_assistant_message,
    is_loop_request,
    mark_loop_request,
)


class Failing(LlmAdapter):
    def __init__(self, error: BaseException, *, early: bool) -> None:
        self.error = error
        self.early = early

    def stream(self, request: GenerateOptions) -> Chunks:
        if self.early:
            raise self.error
        return self._late()

    async def _late(self) -> Chunks:
        yield TextDelta(0, "a")
        raise self.error


async def test_a_request_reaches_the_adapter_of_its_provider() -> None:
    """M-020: chunks come as the adapter yields them."""
    async with running(echo=Echo(), other=Echo()) as (_, llm):
        chunks = await collected(llm.stream(request("hello")))
    assert chunks == [TextDelta(0, "hello"), BlockEnd(0, TextBlock("hello")), STOP]


async def test_a_listener_wraps_the_stream() -> None:
    """M-020: middleware sees request and chunks of every call."""

    async def shout(seen: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        return louder(await call_next())

    async def louder(chunks: Chunks) -> Chunks:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield TextDelta(0, chunk.text.upper()) if isinstance(chunk, TextDelta) else chunk

    async with running(echo=Echo()) as (root, llm):
        root.on(STREAM, shout)
        assert (await collected(llm.stream(request("hello"))))[0] == TextDelta(0, "HELLO")


async def test_a_listener_may_serve_a_route_without_adapter() -> None:
    """M-020: the provider is looked up after the middleware."""

    async def canned() -> Chunks:
        yield STOP

    def serve(request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        return canned()

    async with running() as (root, llm):
        root.on(STREAM, serve)
        assert await collected(llm.stream(request(provider="nobody"))) == [STOP]


async def test_a_missing_adapter_is_a_finish_of_a_stream_and_an_error_of_prepare_call() -> None:
    """M-022: both say which providers there are."""
    async with running(echo=Echo()) as (_, llm):
        [finish] = await collected(llm.stream(request(provider="nobody")))
        with pytest.raises(NoAdapterError, match=r"'nobody' \(registered: echo\)") as raised:
            await llm.prepare_call(LlmCallConfig(provider="nobody", model="m"))
    assert raised.value.code == "NO_ADAPTER"
    assert finish == FinishChunk(Finish.error(LlmFailure(str(raised.value), "NO_ADAPTER")))


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    ("error", "finish"),
    [
        (
            LlmError(LlmFailure("busy", "RATE_LIMIT", 429)),
            Finish.error(LlmFailure("busy", "RATE_LIMIT", 429)),
        ),
        (HarnessError("stopped", "ABORTED"), Finish.aborted(LlmFailure("stopped", "ABORTED"))),
        (KeyError("x"), Finish.error(LlmFailure("KeyError: 'x'", "UNKNOWN"))),
    ],
)
async def test_an_adapters_exception_is_a_finish(
    error: Exception, finish: Finish, early: bool
) -> None:
    """M-023, M-036: with its facts, and not replaced by a complaint about a missing finish."""
    async with running(echo=Failing(error, early=early)) as (_, llm):
        chunks = await collected(llm.stream(request()))
    assert chunks == [*([] if early else [TextDelta(0, "a")]), FinishChunk(finish)]


async def test_the_finish_is_the_last_chunk_and_is_never_missing() -> None:
    """M-036: what an adapter yields after its finish is not passed on."""

    class Chatty(Echo):
        async def stream(self, request: GenerateOptions) -> Chunks:
            yield TextDelta(0, "a")
            if request.messages[0].text == "finish":
                yield STOP
                yield TextDelta(0, "late")

    async with running(echo=Chatty()) as (_, llm):
        assert await collected(llm.stream(request("finish"))) == [TextDelta(0, "a"), STOP]
        [_, last] = await collected(llm.stream(request("none")))
    assert isinstance(last, FinishChunk)
    assert last.finish.failure is not None
    assert last.finish.failure.code == "STREAM_CLOSED"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Finish("error"), "UNKNOWN"),
        (Finish.error(LlmFailure("a", "")), "UNKNOWN"),
        (Finish.error(LlmFailure("a", "AUTH")), "AUTH"),
        (Finish("stop", LlmFailure("a", "AUTH")), None),
    ],
)
async def test_a_finish_has_a_failure_exactly_where_one_belongs(
    given: Finish, kept: str | None
) -> None:
    """M-030, M-036: what the log could not be read back with does not get into it."""

    class Sloppy(LlmAdapter):
        async def stream(self, request: GenerateOptions) -> Chunks:
            yield FinishChunk(given)

    async with running(echo=Sloppy()) as (_, llm):
        [chunk] = await collected(llm.stream(request()))
    assert chunk_from_wire(chunk.to_wire()) == chunk
    assert isinstance(chunk, FinishChunk)
    failure = chunk.finish.failure
    assert (None if failure is None else failure.code) == kept


async def test_a_stream_that_is_no_generator_is_a_finish_that_says_so() -> None:
    """An adapter written with `return` instead of `yield`."""

    class Returning(Echo):
        def stream(self, request: GenerateOptions) -> Any:
            return [STOP]

    async with running(echo=Returning()) as (_, llm):
        [finish] = await collected(llm.stream(request()))
    assert isinstance(finish, FinishChunk)
    assert finish.finish.failure is not None
    assert finish.finish.failure.code == "INVALID_ADAPTER"
    assert "async generator function; it returned list" in finish.finish.failure.message


async def test_a_listeners_exception_stays_an_exception() -> None:
    """M-024: it is not offered as a failed request."""

    def refuse(request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        raise LookupError("no")

    async with running(echo=Echo()) as (root, llm):
        root.on(STREAM, refuse)
        with pytest.raises(LookupError, match="no"):
            await collected(llm.stream(request()))


async def test_closing_early_awaits_the_adapters_cleanup_and_raises_its_failure() -> None:
    """M-024: cleanup happens where the consumer closes, not at the next collection."""

    class Clinging(Echo):
        async def stream(self, request: GenerateOptions) -> Chunks:
            try:
                yield TextDelta(0, "a")
            finally:
                await anyio.lowlevel.checkpoint()
                self.closed = True
                raise OSError("cannot close")

    adapter = Clinging()
    async with running(echo=adapter) as (_, llm):
        chunks = llm.stream(request())
        assert await anext(chunks) == TextDelta(0, "a")
        with pytest.raises(OSError, match="cannot close"):
            await chunks.aclose()
    assert adapter.closed


async def test_cancelling_the_consumer_reaches_the_adapter_and_is_no_failure() -> None:
    """M-023: the cancellation propagates, no finish is made of it."""

    class Waiting(Echo):
        async def stream(self, request: GenerateOptions) -> Chunks:
            try:
                yield TextDelta(0, "a")
                await anyio.sleep_forever()
            finally:
                self.closed = True

    adapter, seen = Waiting(), []
    async with running(echo=adapter) as (_, llm):
        with anyio.CancelScope() as scope:
            async with aclosing(llm.stream(request())) as chunks:
                async for chunk in chunks:
                    seen.append(chunk)
                    scope.cancel()
    assert (scope.cancelled_caught, adapter.closed) == (True, True)
    assert seen == [TextDelta(0, "a")]


def from_model(provider: str) -> Message:
    return create_assistant_message("x", provider, "m", replay_state={"response": provider})


async def test_replay_state_reaches_only_the_adapter_that_made_it() -> None:
    """M-029: the same instance under another name counts, the input stays as it was."""
    own, foreign = Echo(), Echo()
    async with running(echo=own, alias=own, foreign=foreign) as (_, llm):
        history = tuple(map(from_model, ("echo", "alias", "foreign", "gone")))
        sent = mark_loop_request(request(messages=history))
        await collected(llm.stream(sent))
        await collected(llm.stream(request(messages=history[:2])))
    received = own.requests[0]
    states = [getattr(message.source, "replay_state", None) for message in received.messages]
    assert states == [{"response": "echo"}, {"response": "alias"}, None, None]
    assert received.messages[2].source == ModelSource("foreign", "m")
    assert is_loop_request(received)
    assert sent.messages is history
    assert own.requests[1].messages == history[:2]


async def test_a_scoped_listener_hears_the_calls_made_in_its_scope() -> None:
    """The subject of `llm/stream` is the scope of the caller."""
    heard: list[str] = []

    def hear(name: str) -> Callable[[GenerateOptions, Next[Chunks]], Any]:
        def listener(request: GenerateOptions, call_next: Next[Chunks]) -> Any:
            heard.append(name)
            return call_next()

        return listener

    @plugin(inject=(Llm,))
    async def scoped(ctx: Context) -> None:
        inner = ctx.scope(object())
        inner.on(STREAM, hear("scope"))
        ctx.on(STREAM, hear("all"))
        await collected(inner[Llm].stream(request()))
        heard.append("-")
        await collected(ctx[Llm].stream(request()))

    async with running(echo=Echo()) as (root, _):
        await root.plugin(scoped).ready()
    assert heard == ["scope", "all", "-", "all"]
