from pathlib import Path

import pytest

from terret_agents import TURN_STOPPING, USER, TurnStopping
from terret_context import ConfigError, Container
from terret_loader import open_harness
from terret_plugin_step_limit import step_limit
from terret_sessions import Blocked, Completed, MaxSteps, TurnEnd
from terret_testing import call, running_harness, say, script
from terret_tools import Tools, tool


@tool
async def look() -> str:
    """Look."""
    return "nothing yet"


async def test_a_turn_that_would_go_on_ends_after_its_last_step() -> None:
    """L-210: with its own reason; the results of the last step are in the log."""
    model = script(*[call("look")] * 3)
    async with running_harness(plugins=[(step_limit, {"maxSteps": 3})], model=model) as h:
        h.ctx[Tools].register(look)
        await h.send("wait for it")
        assert (len(h.requests), h.turn_end) == (3, MaxSteps(3))
        assert h.transcript[-1] == "result: nothing yet"


async def test_the_next_prompt_goes_on_with_steps_of_its_own() -> None:
    """The limit is one of turns."""
    model = script(call("look"), call("look"), say("here it is"))
    async with running_harness(plugins=[(step_limit, {"maxSteps": 2})], model=model) as h:
        h.ctx[Tools].register(look)
        await h.send("wait for it")
        assert await h.send("go on") == "here it is"
        reasons = [e.view.reason for e in h.events if isinstance(e.view, TurnEnd)]
        assert reasons == [MaxSteps(2), Completed()]


async def test_a_turn_that_is_finished_in_time_ends_as_usual() -> None:
    """Also when it takes exactly as many steps as it may."""
    model = script(call("look"), say("seen"))
    async with running_harness(plugins=[(step_limit, {"maxSteps": 2})], model=model) as h:
        h.ctx[Tools].register(look)
        assert await h.send("look") == "seen"
        assert h.turn_end == Completed()


async def test_no_listener_of_turn_stopping_gets_a_step_more() -> None:
    """The limit is one of requests: the steered step is not entered."""
    async with running_harness(
        plugins=[(step_limit, {"maxSteps": 1})], model=script(say("x"))
    ) as h:

        def again(event: TurnStopping) -> None:
            event.agent.steer("check it")

        h.ctx.on(TURN_STOPPING, again)
        await h.send("go")
        assert len(h.requests) == 1
        assert h.turn_end == Blocked("the limit of 1 steps a turn is reached")
        h.agent.cancel(USER)


async def test_one_agent_can_have_a_stricter_limit() -> None:
    """Mounted through its context, it concerns nobody else."""
    model = script(call("look"))
    async with running_harness(plugins=[step_limit], model=model) as h:
        h.ctx[Tools].register(look)
        await h.agent.ctx.plugin(step_limit, {"maxSteps": 1}).ready()
        await h.send("look")
        assert h.turn_end == MaxSteps(1)


async def test_without_the_plugin_nothing_stops() -> None:
    """Unloading it removes the limit."""
    model = script(call("look"), call("look"), say("ok"))
    async with running_harness(plugins=[(step_limit, {"maxSteps": 1})], model=model) as h:
        h.ctx[Tools].register(look)
        [fiber] = h.ctx.fibers(step_limit)
        await fiber.dispose()
        assert await h.send("look") == "ok"


@pytest.mark.parametrize("limit", [0, -1, "many"])
async def test_a_limit_below_one_is_refused(limit: object) -> None:
    async with Container() as root:
        fiber = root.plugin(step_limit, {"maxSteps": limit})
        await root.settle()
        assert isinstance(fiber.error, ConfigError)


async def test_it_boots_from_yaml(tmp_path: Path) -> None:
    document = tmp_path / "harness.yml"
    document.write_text("plugins: {agents: {}, step-limit: {maxSteps: 7}}\n", "utf-8")
    async with open_harness(document) as root:
        [fiber] = root.fibers(step_limit)
        assert fiber.state.value == "ACTIVE"
