"""Routes: who answers, with which settings, and what the log says of it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace

import anyio
import anyio.lowlevel

from terret_agents import DISPOSED, REQUEST, AgentOptions, Agents, RequestProposal
from terret_context import Context, Next, plugin
from terret_llm import (
    Chunk,
    Finish,
    FinishChunk,
    GenerateOptions,
    HarnessError,
    Llm,
    LlmAdapter,
    LlmCallConfig,
    ModelInfo,
    TextDelta,
)
from terret_sessions import Aborted, Errored, RequestContext, TurnEnd
from terret_testing import Harness, say, script

from ._chapter import Chapter
from ._kit import headers

Route = Next[LlmCallConfig]


class Catalog(LlmAdapter):
    """Answers at once and knows two models."""

    def __init__(self) -> None:
        self.requests: list[GenerateOptions] = []

    def default_model(self, provider: str) -> str | None:
        return "small"

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        window = 1000 if model == "small" else None
        efforts = ("low", "high")
        return ModelInfo(
            id=model,
            context_window=window,
            max_tokens=50,
            reasoning_efforts=efforts,
            default_reasoning_effort="low",
        )

    async def stream(self, request: GenerateOptions) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        yield TextDelta(0, "ok")
        yield FinishChunk(Finish.stop())


def with_catalog(catalog: Catalog, *providers: str) -> object:
    @plugin(name="catalog", inject=(Llm,))
    def mount(ctx: Context) -> None:
        ctx[Llm].register_adapter(providers, catalog)

    return mount


def contexts(h: Harness) -> list[RequestContext]:
    return [event.view for event in h.events if isinstance(event.view, RequestContext)]


def rerouting(h: Harness, **changes: object) -> Callable[[], None]:
    """Lets a listener change the config of every request; returns how to end that."""

    async def route(proposal: RequestProposal, call_next: Route) -> LlmCallConfig:
        return replace(await call_next(), **changes)  # type: ignore[arg-type]

    return h.ctx.on(REQUEST, route).close


class Lookup(Catalog):
    """Resolves models only when it is told to, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.asked, self.ended = anyio.Event(), anyio.Event()
        self._error = error

    async def resolve_model(self, provider: str, model: str) -> ModelInfo:
        if self._error is not None:
            raise self._error
        self.asked.set()
        try:
            await anyio.Event().wait()
        finally:
            self.ended.set()
        raise AssertionError("never reached")


class Routing(Chapter):
    """Routes: who answers, with which settings, and what the log says of it."""

    async def test_agent_request_may_supply_the_route_and_the_switch_is_logged(self) -> None:
        """L-011, L-156: a missing route comes from the waterfall."""
        catalog = Catalog()
        plugins = [with_catalog(catalog, "shop")]
        async with self.harness(plugins=plugins, options=AgentOptions()) as h:
            rerouting(h, provider="shop", model="large")
            await h.send("a")
            assert catalog.requests[0].model == "large"
            config = headers(h)[0].header.config
            assert (config.provider, config.model) == ("shop", "large")

    async def test_an_agent_without_a_model_uses_the_adapters_default(self) -> None:
        """L-145: filled in by the adapter, logged and marked."""
        catalog = Catalog()
        options = AgentOptions(provider="shop")
        async with self.harness(plugins=[with_catalog(catalog, "shop")], options=options) as h:
            await h.send("a")
            await h.send("b")
            [first, second] = catalog.requests
            assert (first.model, first.max_tokens, first.reasoning_effort) == ("small", 50, "low")
            assert first.config == second.config
            [logged] = headers(h)
            assert set(logged.header.adapter_defaults) == {
                "model",
                "max_tokens",
                "reasoning_effort",
            }

    async def test_adapter_defaults_are_filled_in_again_and_explicit_values_survive(self) -> None:
        """L-145, L-146: after a change of route."""
        catalog = Catalog()
        options = AgentOptions(provider="shop", model="small", max_tokens=7)
        mounts = [with_catalog(catalog, "shop", "mall")]
        async with self.harness(plugins=mounts, options=options) as h:
            end = rerouting(h, reasoning_effort="high")
            await h.send("a")
            end()
            await h.send("b")
            rerouting(h, provider="mall")
            await h.send("c")
            made = [(r.provider, r.max_tokens, r.reasoning_effort) for r in catalog.requests]
            assert made == [("shop", 7, "high"), ("shop", 7, "high"), ("mall", 7, "high")]

    async def test_an_explicit_effort_is_restored_for_the_same_route_only(self) -> None:
        """L-145: on restart over the log."""
        catalog = Catalog()
        shop = AgentOptions(provider="shop", model="small")
        mounts = [with_catalog(catalog, "shop")]
        async with self.harness(plugins=mounts, options=shop) as h:
            rerouting(h, reasoning_effort="high")()
            end = rerouting(h, reasoning_effort="high")
            await h.send("a")
            end()
            for name, model in (("same", "small"), ("other", "large")):
                options = AgentOptions(provider="shop", model=model)
                async with await h.ctx[Agents].create(
                    session_id=name, seed=tuple(h.events), agent_options=options
                ) as again:
                    again.agent.send("b")
                    await again.agent.when_idle()
            assert [r.reasoning_effort for r in catalog.requests] == ["high", "high", "low"]

    async def test_the_request_context_is_logged_once_per_route(self) -> None:
        """L-155: again on change, and without window when the next model advertises none."""
        catalog = Catalog()
        options = AgentOptions(provider="shop", model="small")
        async with self.harness(plugins=[with_catalog(catalog, "shop")], options=options) as h:
            await h.send("a")
            await h.send("b")
            rerouting(h, model="large")
            await h.send("c")
            assert contexts(h) == [
                RequestContext("shop", "small", 1000),
                RequestContext("shop", "large"),
            ]

    async def test_a_stream_listener_may_serve_a_route_without_adapter(self) -> None:
        """L-149."""
        options = AgentOptions(provider="cassette", model="tape")
        async with self.harness(options=options) as h:

            async def play(request: GenerateOptions, call_next: Next[object]) -> object:
                async def chunks() -> AsyncIterator[Chunk]:
                    yield TextDelta(0, f"from {request.provider}")
                    yield FinishChunk(Finish.stop())

                return chunks()

            h.ctx.on("llm/stream", play)
            assert await h.send("a") == "from cassette"

    async def test_a_route_that_nobody_serves_fails_the_turn(self) -> None:
        """L-149, M-022: NO_ADAPTER is the finish."""
        async with self.harness(options=AgentOptions(provider="nowhere", model="m")) as h:
            await h.send("a")
            failed = h.turn_end
            assert isinstance(failed, Errored)
            assert failed.failure.code == "NO_ADAPTER"

    async def test_a_cancel_interrupts_a_blocked_model_lookup(self) -> None:
        """L-148: before disposal completes."""
        lookup = Lookup()
        async with self.harness(plugins=[with_catalog(lookup, "shop")]) as h:
            options = AgentOptions(provider="shop", model="m")
            handle = await h.ctx[Agents].create(session_id="b", agent_options=options)
            handle.agent.send("a")
            await lookup.asked.wait()
            await handle.dispose()
            assert lookup.ended.is_set()
            last = handle.agent.session.events[-1].view
            assert last == TurnEnd(1, Aborted(DISPOSED))

    async def test_a_failing_model_lookup_is_not_swallowed(self) -> None:
        """L-148: it ends the turn."""
        lookup = Lookup(HarnessError("no such model", "UNKNOWN_MODEL"))
        options = AgentOptions(provider="shop", model="m")
        async with self.harness(plugins=[with_catalog(lookup, "shop")], options=options) as h:
            await h.send("a")
            failed = h.turn_end
            assert isinstance(failed, Errored)
            assert failed.failure.code == "UNKNOWN_MODEL"

    async def test_resolution_header_and_dispatch_use_one_registration(self) -> None:
        """L-147: a route that is replaced meanwhile serves the next request."""
        first, second = script(say("first")), script(say("second"))
        async with self.harness() as h:

            @plugin(inject=(Llm,))
            def shop(ctx: Context) -> None:
                registration = ctx[Llm].register_adapter(["shop"], first)

                async def exchange(request: object, call_next: Next[object]) -> object:
                    if not registration.done:
                        registration.close()
                        ctx[Llm].register_adapter(["shop"], second)
                    return await call_next()

                ctx.on("llm/stream", exchange)

            await h.ctx.plugin(shop).ready()

            async def route(proposal: object, call_next: Next[LlmCallConfig]) -> LlmCallConfig:
                return replace(await call_next(), provider="shop", model="m")

            h.ctx.on(REQUEST, route)
            assert await h.send("a") == "first"
            assert await h.send("b") == "second"
