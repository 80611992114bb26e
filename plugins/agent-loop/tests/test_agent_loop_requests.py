from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import FrozenInstanceError, replace
from itertools import pairwise

import anyio
import pytest

from terret_agents import DISPOSED, QUEUED, REQUEST, AgentOptions, Agents, RequestProposal
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
    Message,
    ModelInfo,
    PluginSource,
    TextDelta,
    create_user_message,
    is_loop_request,
)
from terret_sessions import (
    Aborted,
    Completed,
    Errored,
    Replace,
    RequestContext,
    RequestHeader,
    Sources,
    StepStart,
    TurnEnd,
    TurnStart,
    derive_messages,
)
from terret_system_prompt import SystemPrompt
from terret_testing import Harness, Part, call, running_harness, say, script
from terret_tools import Tools, tool

SCRIPTED = AgentOptions(provider="scripted", model="scripted")
Route = Next[LlmCallConfig]


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


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


def headers(h: Harness) -> list[RequestHeader]:
    return [event.view for event in h.events if isinstance(event.view, RequestHeader)]


def contexts(h: Harness) -> list[RequestContext]:
    return [event.view for event in h.events if isinstance(event.view, RequestContext)]


def rerouting(h: Harness, **changes: object) -> Callable[[], None]:
    """Lets a listener change the config of every request; returns how to end that."""

    async def route(proposal: RequestProposal, call_next: Route) -> LlmCallConfig:
        return replace(await call_next(), **changes)  # type: ignore[arg-type]

    return h.ctx.on(REQUEST, route).close


async def test_each_request_extends_the_one_before() -> None:
    """L-140: within a turn and over turns; all frozen and marked."""
    async with running_harness(model=script(call("ping"), say("x"), say("y"))) as h:
        h.ctx[Tools].register(ping)
        await h.send("a")
        await h.send("b")
        sent = [list(request.messages) for request in h.requests]
        assert sent[1][: len(sent[0])] == sent[0]
        assert sent[2][: len(sent[1])] == sent[1]
        for request in h.requests:
            assert is_loop_request(request)
            with pytest.raises(FrozenInstanceError):
                request.system = "other"  # type: ignore[misc]


async def test_a_stable_prompt_logs_one_header_and_a_change_a_full_one() -> None:
    """L-141, L-143."""
    async with running_harness(model=script(say("x"), say("y"), say("z"))) as h:
        await h.send("a")
        await h.send("b")
        assert [header.reason for header in headers(h)] == ["initial"]
        h.ctx[SystemPrompt].section("mood", 50, "Be kind.")
        await h.send("c")
        assert [header.reason for header in headers(h)] == ["initial", "change"]
        assert "Be kind." in str(headers(h)[1].header.system)
        assert headers(h)[1].header.config == headers(h)[0].header.config


async def test_a_fresh_instance_over_a_log_says_resume_and_sends_the_same_prefix() -> None:
    """L-143, L-144: even if nothing changed."""
    async with running_harness(model=script(say("x"), say("y"))) as h:
        await h.send("a")
        log = tuple(h.events)
        async with await h.ctx[Agents].create(
            session_id="again", seed=log, agent_options=SCRIPTED
        ) as again:
            again.agent.send("b")
            await again.agent.when_idle()
            events = again.agent.session.events
        assert [e.view.reason for e in events if isinstance(e.view, RequestHeader)][-1] == "resume"
        first, second = h.requests
        assert list(second.messages[:2]) == [*first.messages, events[len(log) - 3].view.message]  # type: ignore[attr-defined]
        assert (first.system, first.tools) == (second.system, second.tools)


async def test_a_request_can_be_rebuilt_from_the_log() -> None:
    """L-154: the header in force and the derivation over the events before it."""
    async with running_harness(model=script(call("ping"), say("x"), say("y"))) as h:
        h.ctx[Tools].register(ping)
        seen: list[tuple[int, GenerateOptions]] = []

        async def look(request: GenerateOptions, call_next: Next[object]) -> object:
            seen.append((len(h.events), request))
            return await call_next()

        h.ctx.on("llm/stream", look)
        await h.send("a")
        await h.send("b")
        for length, request in seen:
            before = h.events[:length]
            header = [e.view for e in before if isinstance(e.view, RequestHeader)][-1].header
            assert tuple(request.messages) == derive_messages(before)
            assert (request.config, request.system or None) == (header.config, header.system)
            assert request.tools == header.tools


async def test_input_injected_while_the_request_is_made_joins_the_next_one() -> None:
    """L-151."""
    async with running_harness(model=script(call("ping"), say("x"))) as h:
        h.ctx[Tools].register(ping)

        async def inject(
            proposal: RequestProposal, call_next: Next[LlmCallConfig]
        ) -> LlmCallConfig:
            if proposal.step == 1:
                h.agent.inject("late")
            return await call_next()

        h.ctx.on(REQUEST, inject)
        await h.send("a")
        assert [m.text for m in h.requests[0].messages] == ["a"]
        assert h.requests[1].messages[-1].text == "late"


async def test_the_seed_is_frozen_and_a_delegating_listener_cannot_change_it() -> None:
    """L-152, L-153: changing it raises into the step."""
    async with running_harness() as h:

        async def meddle(
            proposal: RequestProposal, call_next: Next[LlmCallConfig]
        ) -> LlmCallConfig:
            config = await call_next()
            config.model = "other"  # type: ignore[misc]
            return config

        h.ctx.on(REQUEST, meddle)
        await h.send("a")
        failed = h.turn_end
        assert isinstance(failed, Errored)
        assert "FrozenInstanceError" in failed.failure.message
        assert h.requests == []


async def test_agent_request_may_supply_the_route_and_the_switch_is_logged() -> None:
    """L-011, L-156: a missing route comes from the waterfall."""
    catalog = Catalog()
    plugins = [with_catalog(catalog, "shop")]
    async with running_harness(plugins=plugins, options=AgentOptions()) as h:
        rerouting(h, provider="shop", model="large")
        await h.send("a")
        assert catalog.requests[0].model == "large"
        config = headers(h)[0].header.config
        assert (config.provider, config.model) == ("shop", "large")


async def test_an_agent_without_a_model_uses_the_adapters_default() -> None:
    """L-145: filled in by the adapter, logged and marked."""
    catalog = Catalog()
    options = AgentOptions(provider="shop")
    async with running_harness(plugins=[with_catalog(catalog, "shop")], options=options) as h:
        await h.send("a")
        await h.send("b")
        [first, second] = catalog.requests
        assert (first.model, first.max_tokens, first.reasoning_effort) == ("small", 50, "low")
        assert first.config == second.config
        [logged] = headers(h)
        assert set(logged.header.adapter_defaults) == {"model", "max_tokens", "reasoning_effort"}


async def test_adapter_defaults_are_filled_in_again_and_explicit_values_survive() -> None:
    """L-145, L-146: after a change of route."""
    catalog = Catalog()
    options = AgentOptions(provider="shop", model="small", max_tokens=7)
    mounts = [with_catalog(catalog, "shop", "mall")]
    async with running_harness(plugins=mounts, options=options) as h:
        end = rerouting(h, reasoning_effort="high")
        await h.send("a")
        end()
        await h.send("b")
        rerouting(h, provider="mall")
        await h.send("c")
        made = [(r.provider, r.max_tokens, r.reasoning_effort) for r in catalog.requests]
        assert made == [("shop", 7, "high"), ("shop", 7, "high"), ("mall", 7, "high")]


async def test_an_explicit_effort_is_restored_for_the_same_route_only() -> None:
    """L-145: on restart over the log."""
    catalog = Catalog()
    shop = AgentOptions(provider="shop", model="small")
    mounts = [with_catalog(catalog, "shop")]
    async with running_harness(plugins=mounts, options=shop) as h:
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


async def test_the_request_context_is_logged_once_per_route() -> None:
    """L-155: again on change, and without window when the next model advertises none."""
    catalog = Catalog()
    options = AgentOptions(provider="shop", model="small")
    async with running_harness(plugins=[with_catalog(catalog, "shop")], options=options) as h:
        await h.send("a")
        await h.send("b")
        rerouting(h, model="large")
        await h.send("c")
        assert contexts(h) == [
            RequestContext("shop", "small", 1000),
            RequestContext("shop", "large"),
        ]


async def test_a_stream_listener_may_serve_a_route_without_adapter() -> None:
    """L-149."""
    options = AgentOptions(provider="cassette", model="tape")
    async with running_harness(options=options) as h:

        async def play(request: GenerateOptions, call_next: Next[object]) -> object:
            async def chunks() -> AsyncIterator[Chunk]:
                yield TextDelta(0, f"from {request.provider}")
                yield FinishChunk(Finish.stop())

            return chunks()

        h.ctx.on("llm/stream", play)
        assert await h.send("a") == "from cassette"


async def test_a_route_that_nobody_serves_fails_the_turn() -> None:
    """L-149, M-022: NO_ADAPTER is the finish."""
    async with running_harness(options=AgentOptions(provider="nowhere", model="m")) as h:
        await h.send("a")
        failed = h.turn_end
        assert isinstance(failed, Errored)
        assert failed.failure.code == "NO_ADAPTER"


async def test_a_replacement_of_history_rewrites_the_next_request() -> None:
    """L-150: and the log explains it."""
    async with running_harness(model=script(say("x"), say("y"))) as h:
        await h.send("a long story")
        first, last = h.session.surface.seqs[0], h.session.surface.seqs[-1]
        summary = create_user_message("summary", PluginSource("compaction"))
        h.session.append(
            "user/message",
            summary,
            surface_op=Replace(first, last),
            sources=Sources([(first, first), (last, last)]),
        )
        await h.send("go on")
        assert [m.text for m in h.requests[1].messages] == ["summary", "go on"]


async def test_tools_are_in_canonical_order_in_header_and_request() -> None:
    """L-157: independent of the order of registration."""
    async with running_harness(model=script(say("x"))) as h:
        for name in ("zeta", "alpha", "mid"):

            async def body() -> str:
                return "x"

            h.ctx[Tools].register(tool(name=name, description=name)(body))
        await h.send("a")
        assert [schema.name for schema in h.requests[0].tools] == ["alpha", "mid", "zeta"]
        assert headers(h)[0].header.tools == h.requests[0].tools


async def test_an_unknown_name_in_the_tool_order_fails_the_turn_without_a_step() -> None:
    """L-157, L-160: a failure of assembly; the next turn is served once it is repaired."""
    async with running_harness(model=script(say("x"))) as h:
        section = h.ctx[SystemPrompt].section("broken", 50, "I am {{nobody}}.")
        await h.send("a")
        failed = h.turn_end
        assert isinstance(failed, Errored)
        assert (failed.step, "nobody" in failed.failure.message) == (None, True)
        assert not any(isinstance(event.view, StepStart) for event in h.events)
        section.close()
        assert await h.send("b") == "x"


async def test_changed_runtime_context_travels_at_the_tail_with_an_unchanged_header() -> None:
    """L-158: sent when it changes, once cleared; never in the system text."""
    async with running_harness(model=script(*[say("x")] * 4)) as h:
        facts = ["it rains"]
        weather = h.ctx[SystemPrompt].context("weather", 10, lambda context: facts[0])
        await h.send("a")
        await h.send("b")
        facts[0] = "it snows"
        await h.send("c")
        weather.close()
        await h.send("d")
        tails = [line for line in h.transcript if line.startswith("plugin system-prompt")]
        assert len(tails) == 3
        assert "it rains" in tails[0]
        assert "it snows" in tails[1]
        assert len(headers(h)) == 1
        assert "rain" not in str(h.requests[0].system)


async def test_runtime_context_alone_opens_no_step() -> None:
    """L-224: a snapshot neither opens nor prolongs a turn."""
    async with running_harness() as h:
        h.ctx[SystemPrompt].context("weather", 10, "it rains")
        h.ctx.once(QUEUED, lambda queued: h.agent.inbox.remove(queued.message.id))
        await h.send("removed before its turn opens")
        assert h.turn_end == Completed()
        assert [e.type for e in h.events if isinstance(e.view, TurnStart | StepStart)] == [
            "turn/start"
        ]


async def test_an_empty_assembly_omits_the_system_field() -> None:
    """L-161: a short-circuiting listener."""
    async with running_harness(model=script(say("x"))) as h:

        async def empty(assembling: object, call_next: Next[object]) -> object:
            return replace(await call_next(), sections=())  # type: ignore[type-var]

        h.ctx.on("system-prompt/assemble", empty)
        await h.send("a")
        assert h.requests[0].system is None
        assert headers(h)[0].header.system is None


async def test_the_prompt_may_name_provider_model_and_cwd() -> None:
    """L-159: the model also when the adapter supplied it."""
    catalog = Catalog()
    mounts = [with_catalog(catalog, "shop")]
    async with running_harness(plugins=mounts) as h:
        h.ctx[SystemPrompt].section("where", 50, "{{provider}}/{{model}} in {{cwd}}")
        async with await h.ctx[Agents].create(
            session_id="b", meta={"cwd": "/srv"}, agent_options=AgentOptions(provider="shop")
        ) as other:
            other.agent.send("a")
            await other.agent.when_idle()
        assert "shop/small in /srv" in str(catalog.requests[0].system)


class CountingCodec:
    key = "counting"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode_message(self, message: Message) -> bytes:
        self.encoded.append(message.id)
        return message.text.encode()


async def test_requests_share_their_messages_and_each_is_encoded_once() -> None:
    """L-226: what a step costs besides model and tools does not grow with the history."""
    codec = CountingCodec()

    def encode(request: GenerateOptions) -> Part:
        return say(str(len([message.encoded(codec) for message in request.messages])))

    async with running_harness(model=script(*[encode] * 10)) as h:
        for number in range(10):
            await h.send(f"prompt {number}")
        assert [len(request.messages) for request in h.requests] == list(range(1, 20, 2))
        assert len(codec.encoded) == 19
        appended = [e.seq for e in h.events if isinstance(e.view, TurnStart)]
        assert len({b - a for a, b in pairwise(appended[1:])}) == 1


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


async def test_a_cancel_interrupts_a_blocked_model_lookup() -> None:
    """L-148: before disposal completes."""
    lookup = Lookup()
    async with running_harness(plugins=[with_catalog(lookup, "shop")]) as h:
        options = AgentOptions(provider="shop", model="m")
        handle = await h.ctx[Agents].create(session_id="b", agent_options=options)
        handle.agent.send("a")
        await lookup.asked.wait()
        await handle.dispose()
        assert lookup.ended.is_set()
        last = handle.agent.session.events[-1].view
        assert last == TurnEnd(1, Aborted(DISPOSED))


async def test_a_failing_model_lookup_is_not_swallowed() -> None:
    """L-148: it ends the turn."""
    lookup = Lookup(HarnessError("no such model", "UNKNOWN_MODEL"))
    options = AgentOptions(provider="shop", model="m")
    async with running_harness(plugins=[with_catalog(lookup, "shop")], options=options) as h:
        await h.send("a")
        failed = h.turn_end
        assert isinstance(failed, Errored)
        assert failed.failure.code == "UNKNOWN_MODEL"
