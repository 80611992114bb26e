from pathlib import Path

import pytest

from terret_agents import REQUEST_ERROR, TURN_STOPPING, USER, Agents, Retry, TurnStopping, hook
from terret_context import ConfigError, Container
from terret_llm import Usage
from terret_loader import open_harness
from terret_plugin_usage_limit import Price, usage_limit
from terret_sessions import Aborted, Blocked, Completed, Errored, OtherEnd, event_from_json
from terret_testing import (
    SCRIPTED,
    ManualClock,
    MemorySessions,
    Mount,
    call,
    fail,
    pause,
    reply,
    running_harness,
    say,
    script,
)
from terret_tools import Tools, tool

THOUSAND = Usage(input_tokens=400, output_tokens=300, cache_read_tokens=200, cache_write_tokens=100)


@tool
async def look() -> str:
    """Look."""
    return "nothing yet"


def limited(**config: object) -> Mount:
    return usage_limit, config


LOOK = reply(call("look"), usage=THOUSAND)


async def test_a_turn_ends_when_it_has_used_its_tokens_and_would_go_on() -> None:
    """L-210: with a durable reason of its own; all four kinds of tokens count."""
    plugins = [limited(turn={"tokens": 1500})]
    async with running_harness(plugins=plugins, model=script(LOOK, LOOK)) as h:
        h.ctx[Tools].register(look)
        await h.send("look")
        data = {"limit": "tokens", "per": "turn", "used": 2000, "allowed": 1500}
        assert h.turn_end == OtherEnd("usage-limit", {"kind": "usage-limit", **data})
        assert len(h.requests) == 2


async def test_the_reason_survives_storage() -> None:
    """A reader that does not know the kind keeps it as it is."""
    kept = MemorySessions()
    plugins = [limited(turn={"tokens": 500}), kept.plugin]
    async with running_harness(plugins=plugins, model=script(LOOK)) as h:
        h.ctx[Tools].register(look)
        await h.send("look")
        expected = h.turn_end
    [end] = [e for e in map(event_from_json, kept.rows["test"]) if e.type == "turn/end"]
    assert end.view.reason == expected  # type: ignore[attr-defined]


async def test_a_turn_that_is_finished_in_time_ends_as_usual() -> None:
    """Also when its last request went over the limit."""
    model = script(reply(say("done"), usage=THOUSAND), reply(say("more"), usage=THOUSAND))
    async with running_harness(plugins=[limited(turn={"tokens": 100})], model=model) as h:
        assert await h.send("go") == "done"
        assert h.turn_end == Completed()
        assert await h.send("go on") == "more"


async def test_no_listener_of_turn_stopping_gets_more_than_there_is() -> None:
    """The steered step is not entered."""
    model = script(reply(say("x"), usage=THOUSAND))
    async with running_harness(plugins=[limited(turn={"tokens": 100})], model=model) as h:

        def again(event: TurnStopping) -> None:
            event.agent.steer("check it")

        h.ctx.on(TURN_STOPPING, again)
        await h.send("go")
        assert isinstance(h.turn_end, Blocked)
        assert len(h.requests) == 1
        h.agent.cancel(USER)


async def test_a_session_that_has_used_its_tokens_makes_no_further_request() -> None:
    """Each further turn is blocked, with a text that says why."""
    model = script(reply(say("x"), usage=THOUSAND))
    async with running_harness(plugins=[limited(session={"tokens": 1000})], model=model) as h:
        await h.send("a")
        await h.send("b")
        text = "the usage limit is reached: 1,000 of 1,000 tokens of this session"
        assert h.turn_end == Blocked(text)
        assert len(h.requests) == 1


async def test_what_a_session_used_is_read_from_its_log_after_a_restart() -> None:
    """And what a fork took over is not its own."""
    kept = MemorySessions()
    model = script(reply(say("x"), usage=THOUSAND))
    async with running_harness(plugins=[kept.plugin], model=model) as h:
        await h.send("a")
        seed = tuple(h.events)
    plugins = [kept.plugin, limited(session={"tokens": 1000})]
    async with running_harness(plugins=plugins, model=script(say("fine")), session_id="other") as h:
        async with await h.ctx[Agents].resume(
            resume_session_id="test", agent_options=SCRIPTED
        ) as resumed:
            resumed.agent.send("b")
            await resumed.agent.when_idle()
            assert h.requests == []
        meta = {"parentSession": "test", "seedLength": len(seed)}
        async with await h.ctx[Agents].create(
            session_id="fork", seed=seed, meta=meta, agent_options=SCRIPTED
        ) as fork:
            fork.agent.send("b")
            await fork.agent.when_idle()
            assert len(h.requests) == 1


async def test_failed_attempts_count_too() -> None:
    """The provider has been paid for them."""
    model = script(reply(fail("SERVER"), usage=None), LOOK, LOOK)
    async with running_harness(plugins=[limited(turn={"tokens": 1001})], model=model) as h:
        h.ctx[Tools].register(look)
        h.ctx.on(REQUEST_ERROR, lambda failure, call_next: Retry())
        await h.send("look")
        assert (len(h.requests), isinstance(h.turn_end, OtherEnd)) == (3, True)


async def test_the_cost_is_that_of_the_route() -> None:
    """By provider and model, else by provider; cached tokens have prices of their own."""
    prices = {
        "scripted/scripted": {"input": 1000, "output": 2000, "cacheRead": 100, "cacheWrite": 1500}
    }
    plugins = [limited(turn={"cost": 1.0}, prices=prices)]
    async with running_harness(plugins=plugins, model=script(LOOK)) as h:
        h.ctx[Tools].register(look)
        await h.send("look")
        assert isinstance(h.turn_end, OtherEnd)
        assert h.turn_end.data["used"] == 0.4 + 0.6 + 0.02 + 0.15


def test_tokens_of_caches_cost_as_much_as_input_where_nothing_else_is_said() -> None:
    price = Price(input=1, output=10)
    assert price.of(Usage(1_000_000, 0, cache_read_tokens=500_000)) == 1.5


async def test_a_request_without_a_price_is_not_made_when_the_cost_is_limited() -> None:
    """It fails closed."""
    plugins = [limited(session={"cost": 1}, prices={"other": {"input": 1, "output": 1}})]
    async with running_harness(plugins=plugins) as h:
        await h.send("look")
        assert h.requests == []
        assert isinstance(h.turn_end, Errored)
        assert h.turn_end.failure.code == "NO_PRICE"
        assert "scripted/scripted" in h.turn_end.failure.message


async def test_a_turn_that_takes_too_long_is_cancelled_where_it_is() -> None:
    """Queued prompts wait for the next wake; the next turn has time of its own."""
    clock = ManualClock()
    model = script(reply(say("thin"), pause("p"), say("king")), say("quick"), say("next"))
    plugins = [clock.plugin(), limited(turn={"seconds": 60})]
    async with running_harness(plugins=plugins, model=model) as h:
        h.agent.send("think")
        h.agent.followup("later")
        await h.model.reached("p")
        await clock.sleeping()
        clock.advance(61)
        await h.agent.when_idle()
        cause = hook("the usage limit is reached: 60 seconds of this turn")
        assert h.turn_end == Aborted(cause)
        assert [m.text for m in h.agent.inbox.next_turn] == ["later"]
        assert await h.send("go") == "next"


async def test_a_turn_that_ends_in_time_leaves_no_timer() -> None:
    clock = ManualClock()
    plugins = [clock.plugin(), limited(turn={"seconds": 60})]
    async with running_harness(plugins=plugins, model=script(say("x"))) as h:
        await h.send("quick")
        assert "turn timer" not in str(h.ctx.snapshot())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"turn": {"cost": 1}}, "needs `prices`"),
        ({"turn": {"tokens": 0}}, "tokens"),
        ({"session": {"seconds": 5}}, "seconds"),
        ({"prices": {"x": {"input": -1, "output": 0}}}, "input"),
    ],
)
async def test_limits_that_make_no_sense_are_refused(
    config: dict[str, object], message: str
) -> None:
    async with Container() as root:
        fiber = root.plugin(usage_limit, config)
        await root.settle()
        assert isinstance(fiber.error, ConfigError)
        assert message in str(fiber.error)


async def test_it_boots_from_yaml(tmp_path: Path) -> None:
    document = tmp_path / "harness.yml"
    document.write_text(
        "plugins:\n"
        "  agents: {}\n"
        "  llm: {}\n"
        "  sessions: {}\n"
        "  usage-limit:\n"
        "    turn: {tokens: 1000, cost: 0.5, seconds: 60}\n"
        "    prices: {openai/gpt-5: {input: 1.25, output: 10, cacheRead: 0.125}}\n",
        "utf-8",
    )
    async with open_harness(document) as root:
        [fiber] = root.fibers(usage_limit)
        assert fiber.state.value == "ACTIVE"
