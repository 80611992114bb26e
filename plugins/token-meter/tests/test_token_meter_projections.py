"""Usage, pressure and breakdown: what they count, and that they survive being put aside."""

import json
from typing import Any

import pytest

from terret_context import ConfigError, Container, PluginFailedError
from terret_llm import (
    Finish,
    FinishChunk,
    LlmCallConfig,
    LlmFailure,
    TextDelta,
    Usage,
    UsageChunk,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_token_meter import token_meter
from terret_plugin_token_meter._meter import LogTokenMeter
from terret_plugin_token_meter._pricing import Pricing
from terret_sessions import (
    TOKEN_METER,
    AssistantChunk,
    AssistantMessage,
    ContextBreakdown,
    ContextPressure,
    EpochHeader,
    Replace,
    RequestContext,
    RequestHeader,
    Session,
    SessionEvent,
    Sessions,
    Sources,
    StepStart,
    TokenUsage,
    ToolCall,
    ToolResult,
    TurnStart,
)
from terret_testing import fail, running_harness, say, script

STOP = Finish.stop()
FAILED = Finish.error(LlmFailure("down", "SERVER"))


def meter() -> LogTokenMeter:
    return LogTokenMeter(Pricing(4.0))


def log() -> Session:
    session = Session()
    session.append("turn/start", TurnStart(1))
    session.append("step/start", StepStart(1, 1))
    return session


def chunk(session: Session, *chunks: Any) -> None:
    for each in chunks:
        session.append("assistant/chunk", AssistantChunk(1, 1, each))


def answer(session: Session, text: str, usage: Usage | None = None) -> SessionEvent:
    payload = AssistantMessage(1, 1, create_assistant_message(text, "p", "m"), usage)
    return session.append("assistant/message", payload, surface_op="append")


def user(session: Session, text: str) -> SessionEvent:
    return session.append("user/message", create_user_message(text), surface_op="append")


def compact(session: Session, *nodes: SessionEvent) -> None:
    session.append(
        "user/message",
        create_user_message("s"),
        surface_op=Replace(nodes[0].seq, nodes[-1].seq),
        sources=Sources([node.seq for node in nodes]),
    )


async def test_the_service_comes_and_goes_with_the_plugin() -> None:
    """M-080, M-088: projections included."""
    async with Container() as root:
        await root.plugin(Sessions).ready()
        fiber = root.plugin(token_meter)
        await fiber.ready()
        found = root.get(TOKEN_METER)
        assert found is not None
        assert found.usage(Session()) == TokenUsage()
        await fiber.dispose()
        assert root.get(TOKEN_METER) is None


@pytest.mark.parametrize("config", [{"bytesPerToken": 0}, {"bytes": 4}, {"bytesPerToken": "many"}])
async def test_the_settings_are_strict(config: dict[str, Any]) -> None:
    """M-080: unknown keys and senseless values stop the plugin."""
    async with Container() as root:
        await root.plugin(Sessions).ready()
        with pytest.raises(PluginFailedError) as raised:
            await root.plugin(token_meter, config).ready()
    assert isinstance(raised.value.__cause__, ConfigError)


async def test_a_conversation_is_measured_while_it_goes_on() -> None:
    """M-080, M-085: through the key, as other plugins find it; a failed request costs nothing."""
    model = script(say("Hello."), fail("AUTH"))
    async with running_harness(plugins=[token_meter], model=model) as harness:
        await harness.send("hi")
        found = harness.ctx.get(TOKEN_METER)
        assert found is not None
        assert found.usage(harness.session) == TokenUsage(1, 10, 5)
        assert found.measure(harness.session).total == 15
        await harness.send("again")
        assert found.usage(harness.session) == TokenUsage(1, 10, 5)
        assert found.measure(harness.session).total > 15


def test_nothing_is_used_before_a_request() -> None:
    """M-085, M-086: zero, and no pressure."""
    session = log()
    user(session, "hi")
    assert meter().usage(session) == TokenUsage()
    assert meter().pressure(session) is None


def test_a_message_repeats_the_count_of_its_chunks() -> None:
    """M-085: no double count; a later count of the same attempt replaces an earlier one."""
    session, counting = log(), meter()
    final = Usage(10, 5, cache_read_tokens=90, cache_write_tokens=7, reasoning_tokens=2)
    chunk(session, UsageChunk(Usage(10, 1)))
    assert counting.usage(session) == TokenUsage(1, 10, 1)
    chunk(session, UsageChunk(final), FinishChunk(STOP))
    answer(session, "yes", final)
    assert counting.usage(session) == meter().usage(session) == TokenUsage(1, 10, 5, 90, 7, 2)
    answer(session, "without chunks", Usage(1, 1))
    assert counting.usage(session).requests == 2


def test_a_failed_attempt_is_billed_though_no_message_is_made_of_it() -> None:
    """M-085: a sample without message is kept, and the next attempt is one of its own."""
    session = log()
    chunk(session, TextDelta(0, "x"), UsageChunk(Usage(10, 5)), FinishChunk(FAILED))
    chunk(session, TextDelta(0, "y"), UsageChunk(Usage(10, 6)), FinishChunk(STOP))
    answer(session, "y", Usage(10, 6))
    assert meter().usage(session) == TokenUsage(2, 20, 11)


def test_compaction_does_not_take_back_what_was_billed() -> None:
    """M-085, M-086: it changes what is sent next, not what was."""
    session = log()
    first = user(session, "long" * 100)
    session.append("request/context", RequestContext("p", "m", 200))
    last = answer(session, "yes", Usage(100, 5))
    before, pressure = meter().usage(session), meter().pressure(session)
    compact(session, first, last)
    assert meter().usage(session) == before
    assert meter().pressure(session) == pressure == ContextPressure(100, 200, 0.5)


def test_pressure_is_that_of_the_newest_prompt_in_the_newest_window() -> None:
    """M-086: prompt buckets only, clamped; without a known window there is no ratio."""
    session = log()
    answer(session, "a", Usage(1, 999, cache_read_tokens=2, cache_write_tokens=4))
    assert meter().pressure(session) == ContextPressure(7, None, None)
    session.append("request/context", RequestContext("p", "m", 5))
    assert meter().pressure(session) == ContextPressure(7, 5, 1.0)
    session.append("request/context", RequestContext("q", "n", None))
    chunk(session, UsageChunk(Usage(3, 1)))
    assert meter().pressure(session) == ContextPressure(3, None, None)


def header(session: Session, system: str) -> None:
    found = EpochHeader(config=LlmCallConfig(provider="p", model="m"), system=system)
    session.append("request/header", RequestHeader(found, "change"))


def test_the_breakdown_shows_the_newest_header_and_the_surface() -> None:
    """M-087: by who speaks; compaction makes it smaller."""
    session, counting = log(), meter()
    header(session, "a" * 400)
    header(session, "b" * 40)
    first, middle = user(session, "hello"), answer(session, "yes")
    session.append("tool/call", ToolCall(1, 1, "a", "f", "{}"))
    result = ToolResult(1, 1, create_tool_result_message("a", "x" * 400))
    last = session.append("tool/result", result, surface_op="append")
    full = counting.breakdown(session)
    assert full.system == Pricing(4.0).text("b" * 40)
    assert min(full.user, full.assistant) > 0
    assert full.tool_results > 100
    compact(session, first, middle, last)
    small = counting.breakdown(session)
    assert small == meter().breakdown(session)
    assert (small.assistant, small.tool_results) == (0, 0)
    assert small.user < full.user + full.tool_results
    measured = counting.measure(session)
    assert small.user == sum(tokens for _, tokens in measured.surface)


def long_log(answers: int) -> Session:
    session = log()
    for number in range(answers):
        user(session, f"question {number}")
        chunk(session, TextDelta(0, "x"), UsageChunk(Usage(10, 5)), FinishChunk(STOP))
        answer(session, "yes", Usage(10, 5))
    return session


def test_everything_goes_on_from_a_checkpoint() -> None:
    """M-088, M-087: through JSON, in the middle of an attempt; its size does not grow."""
    session = long_log(3)
    chunk(session, TextDelta(0, "x"), UsageChunk(Usage(7, 1)))
    stored = json.loads(json.dumps(meter().checkpoint(session)))
    assert {"tokenUsage", "contextPressure", "contextBreakdown"} < stored.keys()
    chunk(session, UsageChunk(Usage(8, 2)), FinishChunk(STOP))
    answer(session, "yes", Usage(8, 2))
    restored, fresh = meter(), meter()
    restored.restore(session, stored)
    assert restored.usage(session) == fresh.usage(session) == TokenUsage(4, 38, 17)
    assert restored.pressure(session) == fresh.pressure(session)
    assert restored.breakdown(session) == fresh.breakdown(session)
    assert restored.checkpoint(session) == fresh.checkpoint(session)
    size = len(json.dumps(meter().checkpoint(long_log(300))))
    assert size < len(json.dumps(stored)) + 40


def test_a_checkpoint_of_another_log_is_refused_where_it_shows() -> None:
    """M-087: more is removed than there is; the meter that refuses is as it was."""
    session, counting = log(), meter()
    first = user(session, "long" * 100)
    other = counting.checkpoint(session) | {"contextBreakdown": {}}
    last = answer(session, "ok")
    compact(session, first, last)
    expected = counting.breakdown(session)
    assert isinstance(expected, ContextBreakdown)
    with pytest.raises(ValueError, match="another log's state"):
        counting.restore(session, other)
    assert counting.breakdown(session) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"seq": 99},
        {"seq": "1"},
        {"tokenUsage": None},
        {"tokenUsage": {"done": {"requests": -1}, "sample": None, "isOpen": False}},
        {"contextPressure": {}},
        {"contextBreakdown": {"user": 1.5}},
    ],
)
def test_a_malformed_checkpoint_is_refused(change: dict[str, Any]) -> None:
    """M-088: it is validated before anything is taken over."""
    session = long_log(1)
    stored = meter().checkpoint(session)
    with pytest.raises(ValueError, match=r"checkpoint|counts|version"):
        meter().restore(session, stored | change)
