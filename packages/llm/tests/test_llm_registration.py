"""Which adapter serves which provider."""

from typing import Any

import pytest

from echo_models import Echo, running
from terret_context import Context, InactiveFiberError, plugin
from terret_llm import (
    ADAPTERS_UPDATED,
    AdaptersUpdated,
    DuplicateAdapterError,
    HarnessError,
    Llm,
    LlmCallConfig,
    ProviderInfo,
    RetryPolicy,
)


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
