"""Five lines are a test of a plugin; further ones show what else there is."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import anyio
import pytest
from reverse import reverse_text

from terret_agents import USER
from terret_sessions import Aborted, Errored, SessionLog
from terret_testing import (
    Harness,
    MemorySessions,
    ReplayModel,
    call,
    fail,
    pause,
    reply,
    say,
    script,
)
from terret_tools import PRE_EXECUTE, Deny, Tools, tool

Boot: TypeAlias = Callable[..., AbstractAsyncContextManager[Harness]]
ASKED = "user: Turn abc around.", 'call: reverse {"text":"abc"}'


async def test_the_model_gets_the_text_turned_around(harness: Boot) -> None:
    model = script(call("reverse", text="abc"), say("It is cba."))
    async with harness(plugins=[reverse_text], model=model) as h:
        assert await h.send("Turn abc around.") == "It is cba."
        h.assert_transcript(*ASKED, "result: cba", "assistant: It is cba.")


async def test_a_policy_may_refuse_it(harness: Boot) -> None:
    model = script(call("reverse", text="abc"), say("I may not."))
    async with harness(plugins=[reverse_text], model=model) as h:
        h.ctx.on(PRE_EXECUTE, lambda call, call_next: Deny("not today"))
        assert await h.send("Turn abc around.") == "I may not."
        h.assert_transcript(*ASKED, "error: Error: not today", "assistant: I may not.")


async def test_the_tool_goes_with_the_plugin(harness: Boot) -> None:
    async with harness(plugins=[reverse_text], model=script(say("Hello."))) as h:
        [fiber] = h.ctx.fibers(reverse_text)
        await fiber.dispose()
        await h.send("Hi.")
        assert h.requests[0].tools == ()


async def test_a_failing_model_fails_the_turn(harness: Boot) -> None:
    async with harness(plugins=[reverse_text], model=script(fail("SERVER", "down"))) as h:
        await h.send("Hi.")
        assert isinstance(h.turn_end, Errored)


async def test_a_turn_can_be_stopped_in_the_middle_of_an_answer(harness: Boot) -> None:
    model = script(reply(say("It "), pause("thinking"), say("is")))
    async with harness(plugins=[reverse_text], model=model) as h:
        h.agent.send("Turn abc around.")
        await h.model.reached("thinking")
        h.agent.cancel(USER)
        await h.agent.when_idle()
        assert h.turn_end == Aborted(USER)


@pytest.mark.virtual_time
async def test_a_slow_tool_takes_no_time(harness: Boot) -> None:
    @tool
    async def sleep() -> str:
        """Sleeps for a night."""
        await anyio.sleep(8 * 3600)
        return "awake"

    async with harness(model=script(call("sleep"), say("Good morning."))) as h:
        h.ctx[Tools].register(sleep)
        assert await h.send("Good night.") == "Good morning."


async def test_a_recorded_session_is_said_again(harness: Boot) -> None:
    model = script(call("reverse", text="abc"), say("It is cba."))
    async with harness(plugins=[reverse_text], model=model) as h:
        await h.send("Turn abc around.")
        log = SessionLog(h.session.header, tuple(h.events))
    replayed = ReplayModel(log)
    async with harness(plugins=[reverse_text], model=replayed) as h:
        assert await h.send("Turn abc around.") == "It is cba."
        replayed.assert_consumed()


async def test_a_session_is_there_again_after_a_restart(harness: Boot) -> None:
    kept = MemorySessions()
    async with harness(plugins=[kept.plugin], model=script(say("Hello."))) as h:
        await h.send("Hi.")
    assert len(kept.rows["test"]) == len(h.events)
