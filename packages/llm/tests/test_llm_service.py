from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest

from terret_context import Container, Context, InactiveFiberError, Next, plugin
from terret_llm import (
    ADAPTERS_UPDATED,
    STREAM,
    AdaptersUpdated,
    BlockEnd,
    BoundCall,
    Chunk,
    Chunks,
    DuplicateAdapterError,
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
    ModelInfo,
    ModelSource,
    NoAdapterError,
    ProviderInfo,
    RetryPolicy,
    TextBlock,
    TextDelta,
    create_assistant_message,
    create_user_message,
    is_loop_request,
    mark_loop_request,
)

STOP = FinishChunk(Finish.stop())


class Echo(LlmAdapter):
    """Repeats the last message; what else a test needs stands in its fields."""

    def __init__(self, **info: Any) -> None:
        self.info = info
        self.requests: list[GenerateOptions] = []
        self.closed = False

    async def stream(self, request: GenerateOptions) -> Chunks:
        self.requests.append(request)
        try:
            for index, word in enumerate(request.messages[-1].text.split()):
                yield TextDelta(index, word)
                yield BlockEnd(index, TextBlock(word))
            yield STOP
        finally:
            self.closed = True

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        return ModelInfo(**{"id": model, **self.info})


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


@asynccontextmanager
async def running(**adapters: LlmAdapter) -> AsyncIterator[tuple[Context, Llm]]:
    """A container with the service, and the adapters registered by a plugin of their own."""

    @plugin(inject=(Llm,))
    def models(ctx: Context) -> None:
        for provider, adapter in adapters.items():
            ctx[Llm].register_adapter(provider, adapter)

    async with Container() as root:
        await root.plugin(Llm).ready()
        await root.plugin(models).ready()
        yield root, root[Llm]


def request(text: str = "hi there", provider: str = "echo", **fields: Any) -> GenerateOptions:
    messages = fields.pop("messages", (create_user_message(text),))
    return GenerateOptions(provider=provider, model="m", messages=messages, **fields)


async def collected(chunks: Chunks) -> list[Chunk]:
    async with aclosing(chunks):
        return [chunk async for chunk in chunks]


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


async def test_a_registration_ends_with_the_fiber_that_made_it() -> None:
    """M-021: also when another plugin holds the handle."""

    @plugin(inject=(Llm,))
    def models(ctx: Context) -> None:
        ctx[Llm].register_adapter(["a", "b"], Echo())

    async with running(echo=Echo()) as (root, llm):
        fiber = root.plugin(models)
        await fiber.ready()
        assert [info.name for info in llm.list_providers()] == ["echo", "a", "b"]
        await fiber.dispose()
        assert [info.name for info in llm.list_providers()] == ["echo"]


@pytest.mark.parametrize(
    ("providers", "code"),
    [
        (["new", "echo"], "DUPLICATE_ADAPTER"),
        (["new", "new"], "DUPLICATE_ADAPTER"),
        ([], "INVALID_ADAPTER"),
        (["new", " "], "INVALID_ADAPTER"),
    ],
)
async def test_a_refused_registration_changes_nothing(providers: list[str], code: str) -> None:
    """M-021: all or nothing, and the same names can be registered afterwards."""
    updates: list[AdaptersUpdated] = []
    async with running(echo=Echo()) as (root, llm):
        root.on(ADAPTERS_UPDATED, updates.append)
        with pytest.raises(HarnessError) as raised:
            llm.register_adapter(providers, Echo())
        assert raised.value.code == code
        assert updates == []
        llm.register_adapter("new", Echo()).close()
        llm.register_adapter("new", Echo())


async def test_a_duplicate_names_the_plugin_that_was_first() -> None:
    async with running(echo=Echo()) as (_, llm):
        with pytest.raises(DuplicateAdapterError, match='"models"'):
            llm.register_adapter("echo", Echo())


async def test_no_adapter_is_refused() -> None:
    """M-021: also an adapter whose metadata has the wrong shape."""

    class Odd(Echo):
        def provider_info(self, provider: str) -> Any:
            return provider

    async with running() as (_, llm):
        for adapter in (object(), Odd()):
            with pytest.raises(HarnessError) as raised:
                llm.register_adapter("x", adapter)  # type: ignore[arg-type]  # that is the point
            assert raised.value.code == "INVALID_ADAPTER"


async def test_replace_swaps_the_routes_in_one_step() -> None:
    """M-021, M-033: one event, at which the registry is readable; none of it after the end."""
    async with running(echo=Echo()) as (root, llm):
        handle = llm.register_adapter(["a", "b"], Echo())
        seen: list[object] = []
        root.on(ADAPTERS_UPDATED, lambda update: seen.append((update, len(llm.list_providers()))))
        handle.replace(["b", "c"])
        assert handle.providers == ("b", "c")
        assert seen == [(AdaptersUpdated(("echo", "b", "c")), 3)]
        with pytest.raises(DuplicateAdapterError):
            handle.replace("echo")
        assert handle.providers == ("b", "c")
        handle.close()
        handle.close()
        with pytest.raises(HarnessError) as raised:
            handle.replace("d")
        assert raised.value.code == "REGISTRATION_DISPOSED"
        assert seen[1:] == [(AdaptersUpdated(("echo",)), 1)]


async def test_a_failing_listener_does_not_refuse_a_registration() -> None:
    """M-033: the failure is contained and the registration stands."""

    def fail(update: AdaptersUpdated) -> None:
        raise RuntimeError("listener")

    async with running() as (root, llm):
        root.on(ADAPTERS_UPDATED, fail)
        llm.register_adapter("x", Echo())
        assert llm.list_providers() == (ProviderInfo("x"),)


async def test_a_finished_plugin_cannot_register() -> None:
    contexts: list[Context] = []

    @plugin(inject=(Llm,))
    def late(ctx: Context) -> None:
        contexts.append(ctx)

    async with running() as (root, llm):
        fiber = root.plugin(late)
        await fiber.ready()
        view = contexts[0][Llm]
        await fiber.dispose()
        with pytest.raises(InactiveFiberError):
            view.register_adapter("x", Echo())
        assert llm.list_providers() == ()


async def test_the_retry_policy_is_the_one_of_the_registration() -> None:
    """M-032: asked once, whatever the adapter says later."""

    class Patient(Echo):
        retries = 1

        def retry_policy(self, provider: str) -> RetryPolicy:
            return RetryPolicy(max_retries=self.retries)

    adapter = Patient()
    async with running(echo=adapter) as (_, llm):
        adapter.retries = 9
        call = await llm.prepare_call(LlmCallConfig(provider="echo", model="m"))
        assert llm.provider_retry_policy("echo") == RetryPolicy(max_retries=1) == call.retry_policy


CONFIG = LlmCallConfig(provider="echo", model="m")


async def test_defaults_of_the_model_are_filled_in_and_named() -> None:
    """M-026: an explicit cap is kept, and marks nothing."""
    adapter = Echo(
        max_tokens=100,
        context_window=4096,
        reasoning_efforts=("low", "high"),
        default_reasoning_effort="low",
    )
    async with running(echo=adapter) as (_, llm):
        call = await llm.prepare_call(CONFIG)
        assert (call.config.max_tokens, call.config.reasoning_effort) == (100, "low")
        assert call.adapter_defaults == {"max_tokens", "reasoning_effort"}
        assert call.context_window == 4096
        explicit = LlmCallConfig(provider="echo", model="m", max_tokens=7, reasoning_effort="high")
        assert await llm.resolve_call_config(explicit) == explicit
        assert (await llm.prepare_call(explicit)).adapter_defaults == frozenset()


async def test_a_call_without_model_gets_the_adapters_default() -> None:
    """A provider and no model is enough where the adapter has a default."""

    class Sole(Echo):
        def default_model(self, provider: str) -> str:
            return "only"

    async with running(echo=Sole(), plain=Echo()) as (_, llm):
        call = await llm.prepare_call(LlmCallConfig(provider="echo"))
        assert (call.config.model, call.adapter_defaults) == ("only", frozenset({"model"}))
        for config in (LlmCallConfig(), LlmCallConfig(provider="plain")):
            with pytest.raises(HarnessError, match="agent/request") as raised:
                await llm.prepare_call(config)
            assert raised.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize("efforts", [("low", "high"), ()])
async def test_an_unsupported_effort_is_refused(efforts: tuple[str, ...]) -> None:
    """M-026: never replaced by a nearby one."""
    config = LlmCallConfig(provider="echo", model="m", reasoning_effort="max")
    async with running(echo=Echo(reasoning_efforts=efforts)) as (_, llm):
        with pytest.raises(HarnessError, match="effort 'max'") as raised:
            await llm.resolve_call_config(config)
    assert raised.value.code == "UNSUPPORTED_REASONING_EFFORT"


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ({"id": "other"}, "INVALID_MODEL_INFO"),
        ({"context_window": 0}, "INVALID_MODEL_CONTEXT"),
        ({"max_tokens": -1}, "INVALID_MODEL_MAX_TOKENS"),
        ({"max_tokens": True}, "INVALID_MODEL_MAX_TOKENS"),
        (
            {"reasoning_efforts": ("low",), "default_reasoning_effort": "high"},
            "INVALID_MODEL_REASONING",
        ),
    ],
)
async def test_senseless_model_metadata_is_refused(info: dict[str, Any], code: str) -> None:
    """M-025: by lookup and by preparation alike."""
    async with running(echo=Echo(**info)) as (_, llm):
        with pytest.raises(HarnessError) as looked_up:
            await llm.resolve_model_info("echo", "m")
        with pytest.raises(HarnessError) as prepared:
            await llm.prepare_call(CONFIG)
    assert looked_up.value.code == prepared.value.code == code


async def test_the_model_list_is_whole_or_refused() -> None:
    """M-025: duplicates and other objects spoil it; it limits nothing."""

    class Listing(Echo):
        models: list[Any]

        async def list_models(self, provider: str) -> list[Any]:
            return self.models

    adapter = Listing()
    async with running(echo=adapter) as (_, llm):
        adapter.models = [ModelInfo(id="a"), ModelInfo(id="b")]
        assert await llm.list_models("echo") == tuple(adapter.models)
        for models in ([ModelInfo(id="a"), ModelInfo(id="a")], ["a"]):
            adapter.models = models
            with pytest.raises(HarnessError) as raised:
                await llm.list_models("echo")
            assert raised.value.code == "INVALID_CATALOG"
        assert (await llm.resolve_model_info("echo", "unlisted")).id == "unlisted"


async def test_a_prepared_call_runs_once_and_only_its_own_config() -> None:
    """M-027: a second use and a drifted config are refused before anything is sent."""
    adapter = Echo()
    async with running(echo=adapter) as (_, llm):
        call = await llm.prepare_call(CONFIG)
        with pytest.raises(HarnessError, match="config") as drifted:
            call.stream(request(temperature=1.0))
        assert (await collected(call.stream(request())))[-1] == STOP
        with pytest.raises(HarnessError, match="used already") as again:
            call.stream(request())
        with pytest.raises(AttributeError):
            call.config = CONFIG  # type: ignore[misc]  # that is the point
    assert drifted.value.code == again.value.code == "INVALID_PREPARED_CALL"
    assert len(adapter.requests) == 1


async def test_a_prepared_call_survives_the_replacement_of_its_route() -> None:
    """M-027: it goes to the adapter that resolved it, through the same middleware."""
    first, second, seen = Echo(), Echo(), []

    def watch(request: GenerateOptions, call_next: Next[Chunks]) -> Any:
        seen.append(request.model)
        return call_next()

    async with running() as (root, llm):
        root.on(STREAM, watch)
        handle = llm.register_adapter("echo", first)
        call = await llm.prepare_call(CONFIG)
        handle.close()
        llm.register_adapter("echo", second)
        await collected(call.stream(request()))
    assert (len(first.requests), len(second.requests), seen) == (1, 0, ["m"])


async def test_an_adapter_binds_metadata_and_dispatch_to_one_generation() -> None:
    """M-027: one lookup gives both."""

    class Changing(Echo):
        async def prepare_call(self, config: LlmCallConfig) -> BoundCall:
            return BoundCall(ModelInfo(id=config.model, max_tokens=5), self.generation)

        async def generation(self, request: GenerateOptions) -> Chunks:
            yield TextDelta(0, "bound")
            yield STOP

    async with running(echo=Changing()) as (_, llm):
        call = await llm.prepare_call(CONFIG)
        chunks = await collected(call.stream(request(max_tokens=5)))
    assert chunks == [TextDelta(0, "bound"), STOP]


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
