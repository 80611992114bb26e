"""The executor in a harness with the default loop: what is logged, waited for and asked again."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from terret_agents import REQUEST, REQUEST_ERROR, USER, RequestFailure, RequestProposal, Retry
from terret_context import Context, Plugin, PluginFailedError, plugin
from terret_llm import (
    BlockStart,
    Chunks,
    Finish,
    FinishChunk,
    GenerateOptions,
    Llm,
    LlmCallConfig,
    LlmFailure,
    RetryPolicy,
    TextDelta,
)
from terret_plugin_llm_retry import LlmRetry, LlmRetryStarted, llm_retry
from terret_plugin_llm_retry._executor import RetryExecutor
from terret_sessions import (
    EVENT,
    AssistantChunk,
    AssistantMessage,
    Errored,
    Session,
    SessionEvent,
    event_from_json,
    event_to_json,
)
from terret_testing import (
    Harness,
    ManualClock,
    ScriptedModel,
    call,
    fail,
    reply,
    running_harness,
    say,
)
from terret_tools import Tools, tool


class Model(ScriptedModel):
    """A scripted model with a policy."""

    def __init__(self, *answers: Any, **policy: Any) -> None:
        super().__init__(*answers)
        self.policy: RetryPolicy | None = RetryPolicy(
            **{"initial_delay_ms": 1000, "jitter_ratio": 0.0} | policy
        )

    def retry_policy(self, provider: str) -> RetryPolicy | None:
        return self.policy


@asynccontextmanager
async def harness(
    model: ScriptedModel, *plugins: object, clock: ManualClock | None = None
) -> AsyncIterator[Harness]:
    timed = () if clock is None else (clock.plugin(),)
    async with running_harness(plugins=[*timed, llm_retry, *plugins], model=model) as running:
        with anyio.fail_after(20):
            yield running


def instant(*answers: Any, **policy: Any) -> Model:
    return Model(*answers, **{"initial_delay_ms": 0} | policy)


def retries(running: Harness) -> list[LlmRetry]:
    return [event.view for event in running.events if isinstance(event.view, LlmRetry)]


async def test_the_delay_is_logged_before_the_wait_and_the_start_behind_it() -> None:
    """M-040, B-128: then the same step asks again, and whoever shows text knows that."""
    clock = ManualClock()
    model = Model(reply(say("Half of"), fail("SERVER")), say("Whole."))
    async with harness(model, clock=clock) as running:
        running.agent.send("hi")
        await clock.sleeping()
        [planned] = retries(running)
        assert (planned.turn, planned.step, planned.retry, planned.delay_ms) == (1, 1, 1, 1000)
        assert (planned.provider, planned.max_retries, planned.mode) == ("scripted", 5, "normal")
        assert planned.failure.code == "SERVER"
        assert len(running.requests) == 1
        clock.advance(1)
        await running.agent.when_idle()
        types = [event.type for event in running.events]
        assert types.index("llm/retry-started") == types.index("llm/retry") + 1
        assert types.count("step/start") == 1
        running.assert_transcript("user: hi", "assistant: Whole.")


async def test_a_failed_attempt_reaches_neither_the_conversation_nor_the_next_request() -> None:
    """M-042, B-128, B-117: its chunks are cited by no message, its text is in no request."""
    model = instant(reply(say("Half of"), fail("TRANSPORT")), say("Whole."))
    async with harness(model) as running:
        assert await running.send("hi") == "Whole."
        assert [message.text for message in running.requests[1].messages] == ["hi"]
        [message] = [e for e in running.events if isinstance(e.view, AssistantMessage)]
        failed = [
            event.seq
            for event in running.events
            if isinstance(event.view, AssistantChunk)
            and isinstance(event.view.chunk, TextDelta)
            and event.view.chunk.text == "Half of"
        ]
        assert message.sources is not None
        assert not any(seq in message.sources for seq in failed)


async def test_tools_run_once_though_the_request_behind_them_is_repeated() -> None:
    """B-129, M-042: their results are in the log and are used again."""
    charged: list[int] = []

    @tool
    def charge(cents: int) -> str:
        """Charge the card."""
        charged.append(cents)
        return "done"

    @plugin(inject=(Tools,))
    def tools(ctx: Context) -> None:
        ctx[Tools].register(charge)

    model = instant(call("charge", cents=5), fail("SERVER"), say("fine"))
    async with harness(model, tools) as running:
        assert await running.send("pay") == "fine"
        assert charged == [5]
        assert len(running.requests) == 3
        assert running.requests[1].messages[-1] == running.requests[2].messages[-1]


@pytest.mark.parametrize(
    ("code", "requests"),
    [
        ("EMPTY_RESPONSE", 2),
        ("RATE_LIMIT", 2),
        ("SERVER", 2),
        ("TIMEOUT", 2),
        ("TRANSPORT", 2),
        ("STREAM_CLOSED", 1),
        ("MALFORMED_RESPONSE", 1),
        ("INVALID_REQUEST", 1),
        ("AUTH", 1),
        ("QUOTA", 1),
        ("CONTEXT_WINDOW_EXCEEDED", 1),
        ("UNKNOWN", 1),
    ],
)
async def test_only_what_may_pass_is_repeated(code: str, requests: int) -> None:
    """M-041, B-124, B-125: by the code alone."""
    async with harness(instant(fail(code), say("fine"))) as running:
        await running.send("hi")
        assert len(running.requests) == requests


async def test_an_aborted_request_is_not_repeated() -> None:
    """M-041: somebody wanted it to end."""
    async with harness(instant(fail("ABORTED", aborted=True), say("no"))) as running:
        await running.send("hi")
        assert len(running.requests) == 1


async def test_the_budget_ends_and_the_turn_fails_with_the_last_failure() -> None:
    """M-043, M-050, B-135: bounded, and explicit."""
    model = instant(*[fail("EMPTY_RESPONSE", f"attempt {n}") for n in range(4)], max_retries=3)
    async with harness(model) as running:
        await running.send("hi")
        assert [each.retry for each in retries(running)] == [1, 2, 3]
        assert isinstance(running.turn_end, Errored)
        assert running.turn_end.failure.message == "attempt 3"


async def test_an_adapter_without_a_policy_is_left_alone() -> None:
    model = instant(fail("SERVER"))
    model.policy = None
    async with harness(model) as running:
        await running.send("hi")
        assert retries(running) == []


async def test_the_wait_a_provider_asks_for_is_kept_if_there_is_room_for_it() -> None:
    """M-044, B-120: as it is; a longer one is left to others."""
    clock = ManualClock()
    asks = [LlmFailure("slow", "RATE_LIMIT", 429, ms) for ms in (7000, 10_001)]
    answers = [FinishChunk(Finish.error(each)) for each in asks]

    class Asking(Model):
        async def stream(self, request: GenerateOptions) -> Any:
            self.requests.append(request)
            yield answers[len(self.requests) - 1]

    async with harness(Asking(), clock=clock) as running:
        running.agent.send("hi")
        await clock.sleeping()
        clock.advance(7)
        await running.agent.when_idle()
        assert [each.delay_ms for each in retries(running)] == [7000]
        assert isinstance(running.turn_end, Errored)


def choosing(routes: list[str]) -> Plugin:
    @plugin
    def chooser(ctx: Context) -> None:
        async def choose(
            proposal: RequestProposal, call_next: Callable[[], Awaitable[LlmCallConfig]]
        ) -> LlmCallConfig:
            return LlmCallConfig(provider=routes.pop(0), model="m")

        ctx.on(REQUEST, choose)

    return chooser


def serving(name: str, model: ScriptedModel) -> Plugin:
    @plugin(name=f"model-{name}", inject=(Llm,))
    def adapter(ctx: Context) -> None:
        ctx[Llm].register_adapter(name, model)

    return adapter


async def test_the_policy_and_the_budget_are_those_of_the_provider_that_failed() -> None:
    """M-045: also when a listener chose it, and each provider has a budget of its own."""
    one, two = instant(*[fail("SERVER")] * 9), instant(*[fail("SERVER")] * 9, max_retries=2)
    plugins = (
        serving("one", one),
        serving("two", two),
        choosing(["one", "two", "one", "two", "two"]),
    )
    async with harness(instant(), *plugins) as running:
        await running.send("hi")
        assert [(each.provider, each.retry) for each in retries(running)] == [
            ("one", 1),
            ("two", 1),
            ("one", 2),
            ("two", 2),
        ]
        ids = {(each.provider, each.retry_id) for each in retries(running)}
        assert len(ids) == 2


async def test_a_changed_policy_begins_to_count_anew() -> None:
    """M-045: with a chain of its own."""
    model = instant(fail("SERVER"), fail("SERVER"), say("fine"), max_retries=1)
    clock = ManualClock()
    model.policy = RetryPolicy(max_retries=1, initial_delay_ms=1000, jitter_ratio=0)
    holder: list[Any] = []

    @plugin(inject=(Llm,))
    def changing(ctx: Context) -> None:
        holder.append(ctx[Llm].register_adapter("mine", model))

    async with harness(instant(), changing, choosing(["mine"] * 3), clock=clock) as running:
        running.agent.send("hi")
        await clock.sleeping()
        model.policy = RetryPolicy(max_retries=2, initial_delay_ms=0)
        holder[0].replace("mine")
        clock.advance(1)
        await running.agent.when_idle()
        assert [each.retry for each in retries(running)] == [1, 1]
        assert len({each.retry_id for each in retries(running)}) == 2


async def test_unloading_the_plugin_ends_the_wait_and_the_turn_fails() -> None:
    """M-047: the wait has ended when the unload returns, and before the agent is idle."""
    clock, model = ManualClock(), Model(fail("SERVER"))
    async with running_harness(plugins=[clock.plugin()], model=model) as running:
        fiber = running.ctx.plugin(llm_retry)
        await fiber.ready()
        running.agent.send("hi")
        await clock.sleeping()
        with anyio.fail_after(20):
            await fiber.dispose()
            await running.agent.when_idle()
        assert isinstance(running.turn_end, Errored)
        assert len(running.requests) == 1


async def test_a_listener_that_was_captured_before_the_unload_does_nothing() -> None:
    """M-047: it hands the failure on, and logs nothing."""
    async with running_harness(model=Model()) as running:
        executor = RetryExecutor(running.ctx)
        await executor.close()
        before = len(running.events)
        failed = RequestFailure(
            running.agent, 1, 1, "p", LlmFailure("down", "SERVER"), RetryPolicy()
        )

        async def others() -> Retry | None:
            return None

        assert await executor(failed, others) is None
        assert len(running.events) == before


@pytest.mark.parametrize("moment", ["event", "wait"])
async def test_cancelling_the_turn_wins(moment: str) -> None:
    """M-048, B-123: from the event and during the wait; nothing is asked again."""
    clock = ManualClock()

    @plugin
    def canceller(ctx: Context) -> None:
        def cancel(session: Session, event: SessionEvent) -> None:
            if isinstance(event.view, LlmRetry):
                running.agent.cancel(USER)

        if moment == "event":
            ctx.on(EVENT, cancel)

    async with harness(Model(fail("SERVER"), say("no")), canceller, clock=clock) as running:
        running.agent.send("hi")
        if moment == "wait":
            await clock.sleeping()
            running.agent.cancel(USER)
        await running.agent.when_idle()
        assert len(running.requests) == 1
        assert not any(isinstance(event.view, LlmRetryStarted) for event in running.events)
        assert type(running.turn_end).__name__ == "Aborted"


async def test_cancelling_the_turn_wins_while_another_plugin_decides() -> None:
    """M-048: on entering delegation."""
    deciding = anyio.Event()

    @plugin
    def slow(ctx: Context) -> None:
        async def decide(
            failed: RequestFailure, call_next: Callable[[], Awaitable[Retry | None]]
        ) -> Retry | None:
            deciding.set()
            await anyio.sleep_forever()
            return Retry()

        ctx.on(REQUEST_ERROR, decide)

    async with harness(instant(fail("AUTH"), say("no")), slow) as running:
        running.agent.send("hi")
        await deciding.wait()
        running.agent.cancel(USER)
        await running.agent.when_idle()
        assert len(running.requests) == 1


async def test_the_plugin_takes_no_settings() -> None:
    """M-049: the policy is that of the provider."""
    with pytest.raises(PluginFailedError) as raised:
        async with running_harness(plugins=[(llm_retry, {"maxRetries": 3})]):
            pass
    assert "takes no configuration" in str(raised.value.__cause__)


async def test_the_events_survive_storage() -> None:
    """M-049: with every fact, and without a message of the model."""
    async with harness(instant(fail("SERVER"), say("fine"))) as running:
        await running.send("hi")
        stored = [event for event in running.events if event.type.startswith("llm/retry")]
        assert len(stored) == 2
        for event in stored:
            again = event_from_json(event_to_json(event))
            assert (again.type, again.view) == (event.type, event.view)


class Partial(Model):
    """Breaks the first answer after some text."""

    async def stream(self, request: GenerateOptions) -> Chunks:
        self.requests.append(request)
        yield BlockStart(0, "text")
        yield TextDelta(0, "x")
        code = "TRANSPORT" if len(self.requests) == 1 else "AUTH"
        yield FinishChunk(Finish.error(LlmFailure("broke", code)))


async def test_what_had_arrived_stays_in_the_log() -> None:
    """B-019: of each attempt."""
    async with harness(Partial(initial_delay_ms=0)) as running:
        await running.send("hi")
        texts = [
            event.view.chunk.text
            for event in running.events
            if isinstance(event.view, AssistantChunk) and isinstance(event.view.chunk, TextDelta)
        ]
        assert texts == ["x", "x"]
