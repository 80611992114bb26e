"""What is done to a turn at each of its await points, one after the other.

Every listener, body and stream here waits, so that between two waits there is one thing only.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_agents import (
    ERROR,
    PRE_STEP,
    PROMPT_SUBMIT,
    REQUEST,
    SESSION_PREFIX,
    STEP_RESULT,
    TURN_CONTINUATION,
    TURN_STOP,
    TURN_STOPPING,
    USER,
    Agent,
    AgentFailure,
    Agents,
)
from terret_context import Next, Plugin, Waterfall
from terret_llm import STREAM, Chunks, GenerateOptions, create_user_message
from terret_sessions import (
    Aborted,
    AssistantMessage,
    Completed,
    Errored,
    Session,
    TurnEnd,
    TurnEndReason,
)
from terret_system_prompt import ASSEMBLE
from terret_testing import (
    SCRIPTED,
    Harness,
    MemorySessions,
    assert_balanced,
    call,
    reply,
    running_harness,
    say,
    script,
)
from terret_tools import DECIDED, EXECUTE, POST_EXECUTE, PRE_EXECUTE, Tool, ToolRun, Tools, tool

WATERFALLS: tuple[Waterfall[Any, Any], ...] = (
    ASSEMBLE,
    SESSION_PREFIX,
    PRE_STEP,
    PROMPT_SUBMIT,
    REQUEST,
    STEP_RESULT,
    TURN_CONTINUATION,
    PRE_EXECUTE,
    DECIDED,
    EXECUTE,
    POST_EXECUTE,
)


Listener: TypeAlias = Callable[[object, Next[Any]], Awaitable[Any]]


async def around(payload: object, call_next: Next[Any]) -> Any:
    await checkpoint()
    answer = await call_next()
    await checkpoint()
    return answer


class BrokenListenerError(Exception):
    """What a listener raises in these tests."""


class Failing:
    """A listener that fails once: before or after the others, when it is asked the `nth` time."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    async def __call__(self, payload: object, call_next: Next[Any]) -> Any:
        self._count()
        answer = await call_next()
        self._count()
        return answer

    def _count(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise BrokenListenerError


async def wait(payload: object) -> None:
    await checkpoint()


async def slowly(request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
    async def held(chunks: Chunks) -> Chunks:
        async with aclosing(chunks):
            async for chunk in chunks:
                await checkpoint()
                yield chunk

    return held(await call_next())


def slow_tool(name: str, *, overlaps: bool) -> Tool:
    async def body(run: ToolRun) -> str:
        run.defer_context(create_user_message(f"context of {name}"))
        try:
            await checkpoint()
        finally:
            with anyio.CancelScope(shield=True):
                await checkpoint()
        return "done"

    return tool(name=name, is_concurrency_safe=lambda arguments: overlaps)(body)


@asynccontextmanager
async def turn(
    *plugins: Plugin, overlaps: bool = True, listener: Listener = around
) -> AsyncIterator[Harness]:
    """A harness whose agent has just been sent a prompt that takes two tool calls."""
    model = script(reply(say("wait"), call("one"), call("two")), *[say("done")] * 4)
    async with running_harness(model=model, plugins=plugins) as h:
        for name in ("one", "two"):
            h.ctx[Tools].register(slow_tool(name, overlaps=overlaps))
        for event in WATERFALLS:
            h.ctx.on(event, listener)
        for question in (TURN_STOP, TURN_STOPPING):
            h.ctx.on(question, wait)
        h.ctx.on(STREAM, slowly)
        failures: list[AgentFailure] = []
        h.ctx.on(ERROR, failures.append)
        h.agent.send("go")
        with anyio.fail_after(30):
            yield h
        assert all(isinstance(failure.error, BrokenListenerError) for failure in failures)


async def at_every_point(
    do: Callable[[Harness], Awaitable[Session]],
    begin: Callable[[], AbstractAsyncContextManager[Harness]] = turn,
) -> list[TurnEndReason]:
    """Does something to a turn at each of its points; returns how the first turn ended each time.

    `do` returns the session when everything has come to rest.
    """
    ends: list[TurnEndReason] = []
    while True:
        async with begin() as h:
            for _ in ends:
                await checkpoint()
            running = h.agent.status == "running"
            session = await do(h)
            assert_balanced(session)
            reasons = [e.view.reason for e in session.events if isinstance(e.view, TurnEnd)]
            ends.append(reasons[0])
            assert reasons[-1] == Completed()
            if not running:
                return ends


async def send(agent: Agent, text: str) -> Session:
    agent.send(text)
    await agent.when_idle()
    return agent.session


@pytest.mark.parametrize("overlaps", [False, True])
async def test_a_turn_can_be_cancelled_at_every_point(overlaps: bool) -> None:
    """L-101, L-081, L-093, L-227: calls have results, and the next prompt is served."""

    async def cancel(h: Harness) -> Session:
        h.agent.cancel(USER)
        await h.agent.when_idle()
        assert_balanced(h.session)
        return await send(h.agent, "and now?")

    ends = await at_every_point(cancel, partial(turn, overlaps=overlaps))
    late = ends.index(Completed())  # nothing but the flush is left
    assert late > 60
    assert ends == [Aborted(USER)] * late + [Completed()] * (len(ends) - late)


async def test_a_listener_may_fail_at_every_point() -> None:
    """L-050, L-055, L-067: it costs one call or one turn, and the next prompt is served."""
    ends: Counter[type] = Counter()
    failed = True
    while failed:
        listener = Failing(ends.total())
        async with turn(listener=listener) as h:
            await h.agent.when_idle()
            failed, listener.left = listener.left < 0, -1
            assert_balanced(h.session)
            ends[type(h.turn_end)] += 1
            await send(h.agent, "and now?")
            assert_balanced(h.session)
            assert h.turn_end == Completed()
    assert ends.keys() == {Completed, Errored}  # those of tools cost their call only
    assert ends[Errored] > 20


async def test_what_is_said_at_any_point_is_answered() -> None:
    """L-018, L-026, L-030: once, by the turn or by one after it."""

    async def say_it(h: Harness) -> Session:
        messages = [h.agent.steer("and this"), h.agent.followup("and that")]
        await h.agent.when_idle()
        for message in messages:
            said = [event.seq for event in h.events if event.view == message]
            assert len(said) == 1
            assert any(isinstance(event.view, AssistantMessage) for event in h.events[said[0] :])
        return h.session

    ends = await at_every_point(say_it)
    assert set(ends) == {Completed()}


async def test_the_loop_can_be_reloaded_at_every_point() -> None:
    """L-195, L-203: nothing that was accepted is lost, and the session goes on."""

    async def reload(h: Harness) -> Session:
        old = h.agent
        old.followup("and this")
        await h.loop.restart()
        await h.ctx.settle()
        assert old.disposed
        assert not old.session.live
        assert_balanced(old.session)
        again = await h.ctx[Agents].resume(resume_session_id=old.id, agent_options=SCRIPTED)
        session = await send(again.agent, "and now?")
        said = [message.text for message in session.derive_messages()]
        assert [said.count(text) for text in ("go", "and this", "and now?")] == [1, 1, 1]
        return session

    ends = await at_every_point(reload, lambda: turn(MemorySessions().plugin))
    assert len(ends) > 60
