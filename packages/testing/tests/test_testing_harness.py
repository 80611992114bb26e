"""A whole harness in a test."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio
import pytest

from terret_agents import USER, Agent, AgentOptions
from terret_context import Config, Context, PluginFailedError, ServiceKey, plugin
from terret_llm import PluginSource, create_user_message
from terret_sessions import Aborted, Completed, Errored, MaxTokens
from terret_testing import (
    Harness,
    ScriptedModel,
    ScriptExhaustedError,
    call,
    fail,
    pause,
    reply,
    running_harness,
    say,
    script,
    think,
)
from terret_tools import Tools, tool


class Boot(Protocol):
    """The fixture `harness`."""

    def __call__(
        self, *, plugins: list[object] = ..., model: ScriptedModel = ...
    ) -> AbstractAsyncContextManager[Harness]: ...


class SumsConfig(Config):
    """How sums are made."""

    offset: int = 0


@plugin(config=SumsConfig, inject=(Tools,))
def sums(ctx: Context, config: SumsConfig) -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        if a < 0:
            raise ValueError("too small")
        return a + b + config.offset

    ctx[Tools].register(add)


async def test_a_prompt_runs_to_idle_and_gives_the_answer(harness: Boot) -> None:
    """L-004: Tool round trip through the real loop, found by its name."""
    model = script(call("add", a=1, b=2), say("It is ", "3."))
    async with harness(plugins=[sums], model=model) as h:
        assert await h.send("1 + 2?") == "It is 3."
        h.assert_transcript(
            "user: 1 + 2?", 'call: add {"a":1,"b":2}', "result: 3", "assistant: It is 3."
        )
        assert h.turn_end == Completed()
        assert [len(request.messages) for request in h.requests] == [1, 3]
        assert h.events[-1].type == "turn/end"
        assert h.agent.status == "idle"


async def test_plugins_may_come_with_their_config(harness: Boot) -> None:
    model = script(call("add", a=1, b=2), say("ok"))
    async with harness(plugins=[(sums, {"offset": 10})], model=model) as h:
        await h.send("go")
        assert "result: 13" in h.transcript


async def test_a_transcript_shows_injected_messages_and_errors(harness: Boot) -> None:
    model = script(reply(think("hm"), say("Well."), call("add", a=-1, b=2)), say("No."))
    async with harness(plugins=[sums], model=model) as h:
        h.agent.inject(create_user_message("be brief", source=PluginSource("style")))
        assert await h.send("-1 + 2?") == "No."
        h.assert_transcript(
            "plugin style: be brief",
            "user: -1 + 2?",
            "assistant: Well.",
            'call: add {"a":-1,"b":2}',
            "error: Error: ValueError: too small",
            "assistant: No.",
        )


async def test_a_transcript_that_differs_is_shown_line_by_line(harness: Boot) -> None:
    async with harness(model=script(say("hello"))) as h:
        await h.send("hi")
        with pytest.raises(AssertionError) as info:
            h.assert_transcript("user: hi", "assistant: goodbye")
    assert "- assistant: goodbye" in str(info.value)
    assert "+ assistant: hello" in str(info.value)


async def test_a_script_that_is_too_short_fails_the_test(harness: Boot) -> None:
    async with harness(model=script(say("one"))) as h:
        assert h.turn_end is None
        assert await h.send("first") == "one"
        with pytest.raises(ScriptExhaustedError, match="request 2; its last message is 'second'"):
            await h.send("second")


async def test_a_failed_turn_can_be_looked_at(harness: Boot) -> None:
    async with harness(model=script(reply(say("par"), fail("AUTH", "no key")))) as h:
        assert await h.send("hi") == ""
        assert isinstance(h.turn_end, Errored)
        assert h.turn_end.failure.code == "AUTH"


async def test_a_pause_makes_a_cancel_land_where_the_test_says(harness: Boot) -> None:
    """L-001: The turn is cancelled in the middle of a stream, on both backends."""
    async with harness(model=script(reply(say("par"), pause("middle"), say("tial")))) as h:
        async with anyio.create_task_group() as group:
            group.start_soon(h.send, "hi")
            await h.model.reached("middle")
            h.agent.cancel(USER)
        assert h.turn_end == Aborted(USER)
        h.assert_transcript("user: hi", "assistant: par")


async def test_options_of_the_agent_may_be_given() -> None:
    options = AgentOptions(provider="scripted", model="other", max_tokens=7)
    async with running_harness(model=script(say("x")), options=options, session_id="s-1") as h:
        await h.send("hi")
        assert (h.requests[0].model, h.requests[0].max_tokens) == ("other", 7)
        assert (h.agent.id, h.session.id) == ("s-1", "s-1")
        assert not isinstance(h.turn_end, MaxTokens)


async def test_a_plugin_that_fails_fails_the_boot() -> None:
    @plugin
    def broken(ctx: Context) -> None:
        raise OSError("no disk")

    with pytest.raises(PluginFailedError) as info:
        async with running_harness(plugins=[broken]):
            raise AssertionError("the harness runs without its plugin")
    assert isinstance(info.value.__cause__, OSError)


async def test_a_plugin_that_waits_for_nobody_fails_the_boot() -> None:
    @plugin(inject=(ServiceKey[object]("weather"),))
    def umbrella(ctx: Context) -> None:
        raise AssertionError("mounted without its service")

    with pytest.raises(AssertionError, match=r"umbrella.* waiting for weather"):
        async with running_harness(plugins=[umbrella]):
            raise AssertionError("the harness runs without its plugin")


async def test_a_loop_that_is_not_installed_is_named() -> None:
    with pytest.raises(LookupError, match=r'no plugin "my-loop" is installed; .*agent-loop'):
        async with running_harness(loop="my-loop"):
            raise AssertionError("the harness runs without a loop")


async def test_a_test_that_fails_in_a_turn_takes_everything_down() -> None:
    """Teardown is complete and in order while a stream is open."""
    closed: list[str] = []
    agents: list[Agent] = []

    @plugin
    async def witness(ctx: Context):  # type: ignore[no-untyped-def]  # an async generator plugin
        yield
        closed.append("plugin")

    model = script(reply(pause("for ever"), say("never")))

    async def fail_in_the_middle() -> None:
        async with running_harness(plugins=[witness], model=model) as h:
            agents.append(h.agent)
            h.agent.send("hi")
            await model.reached("for ever")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_in_the_middle()
    (agent,) = agents
    assert (closed, agent.disposed) == (["plugin"], True)
    assert agent.session.events[-1].type == "turn/end"
