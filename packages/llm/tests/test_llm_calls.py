"""What is known of models, and calls that are prepared."""

from typing import Any

import pytest

from echo_models import STOP, Echo, collected, request, running
from terret_context import Next
from terret_llm import (
    STREAM,
    BoundCall,
    Chunks,
    GenerateOptions,
    HarnessError,
    LlmCallConfig,
    ModelInfo,
    TextDelta,
)

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
