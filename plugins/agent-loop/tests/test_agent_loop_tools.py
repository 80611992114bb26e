from collections.abc import Callable
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from terret_agents import STEP_RESULT, USER, AgentOptions, StepResult
from terret_context import ConfigError, Container, Effect, Next
from terret_llm import Message, PluginSource, ToolCallBlock, create_user_message
from terret_plugin_agent_loop import AgentLoop, AgentLoopConfig
from terret_sessions import (
    Aborted,
    Completed,
    Errored,
    Session,
    SessionEvent,
    Sessions,
    ToolCall,
    ToolResult,
)
from terret_testing import Harness, call, reply, running_harness, say, script
from terret_tools import (
    POST_EXECUTE,
    RESULT,
    Executed,
    PostDecision,
    Tool,
    ToolRun,
    Tools,
    tool,
)

ALONE = AgentOptions(provider="scripted", model="scripted", max_parallel_tool_calls=1)
PAIRS = AgentOptions(provider="scripted", model="scripted", max_parallel_tool_calls=2)


async def breathe() -> None:
    """Lets everything that can go on do so."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


class Bench:
    """Tools whose bodies report when they begin and wait until they are released."""

    def __init__(self, h: Harness) -> None:
        self.h = h
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self._begun: dict[str, anyio.Event] = {}
        self._released: dict[str, anyio.Event] = {}

    def add(self, name: str, *, safe: bool = True) -> Effect:
        self._begun[name], self._released[name] = anyio.Event(), anyio.Event()

        async def body(run: ToolRun) -> str:
            self.started.append(name)
            run.defer_context(create_user_message(f"context {name}", PluginSource("bench")))
            self._begun[name].set()
            try:
                await self._released[name].wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled.append(name)
                raise
            return f"result {name}"

        made: Tool = tool(name=name, description=name, is_concurrency_safe=lambda args: safe)(body)
        return self.h.ctx[Tools].register(made)

    async def begun(self, name: str) -> None:
        await self._begun[name].wait()

    def release(self, *names: str) -> None:
        for name in names:
            self._released[name].set()


def results(h: Harness) -> list[str]:
    lines = [line.removeprefix("result: ") for line in h.transcript if line.startswith("result")]
    return [line.removeprefix("result ") for line in lines]


def codes(h: Harness) -> list[str | None]:
    found = [event.view for event in h.events if isinstance(event.view, ToolResult)]
    return [result.error.code if result.error else None for result in found]


def flow(h: Harness) -> list[str]:
    """The calls and results of the log, in order."""
    lines = []
    for event in h.events:
        match event.view:
            case ToolCall(name=name):
                lines.append(f"call {name}")
            case ToolResult(message=message):
                lines.append(f"result {message.source.to_wire()['callId']}")
    return lines


async def test_parallel_safe_calls_all_start_before_any_completes() -> None:
    """L-110, L-114, L-115: results are in model order although b settles first."""
    async with running_harness(model=script(reply(call("a"), call("b")), say("ok"))) as h:
        bench = Bench(h)
        bench.add("a")
        bench.add("b")
        h.agent.send("go")
        await bench.begun("a")
        await bench.begun("b")
        bench.release("b")
        await breathe()
        assert results(h) == []
        bench.release("a")
        await h.agent.when_idle()
        assert results(h) == ["a", "b"]
        calls = [b.id for m in h.session.derive_messages() for b in m.tool_calls]
        answered = [m.source.to_wire()["callId"] for m in h.requests[1].messages[2:4]]
        assert answered == calls


async def test_an_exclusive_call_is_a_barrier() -> None:
    """L-111: safe, exclusive, safe makes three groups."""
    model = script(reply(call("a"), call("x"), call("b")), say("ok"))
    async with running_harness(model=model) as h:
        bench = Bench(h)
        bench.add("a")
        bench.add("x", safe=False)
        bench.add("b")
        h.agent.send("go")
        for name in ("a", "x", "b"):
            await bench.begun(name)
            await breathe()
            assert bench.started[-1] == name
            bench.release(name)
        await h.agent.when_idle()
        assert flow(h) == [
            "call a",
            "result call-1",
            "call x",
            "result call-2",
            "call b",
            "result call-3",
        ]


async def test_calls_are_classified_again_after_a_barrier() -> None:
    """L-112, L-113: a tool that was replaced meanwhile is taken as it is now."""
    model = script(reply(call("x"), call("b"), call("c")), say("ok"))
    async with running_harness(model=model) as h:
        bench = Bench(h)
        bench.add("x", safe=False)
        old = bench.add("b")
        bench.add("c")
        h.agent.send("go")
        await bench.begun("x")
        await old.aclose()
        bench.add("b", safe=False)
        bench.release("x")
        await bench.begun("b")
        await breathe()
        assert bench.started == ["x", "b"]
        bench.release("b", "c")
        await h.agent.when_idle()
        assert results(h) == ["x", "b", "c"]


async def test_a_result_observer_that_makes_the_next_call_exclusive_stops_replenishment() -> None:
    """L-113."""
    model = script(reply(call("a"), call("b"), call("c")), say("ok"))
    async with running_harness(model=model, options=PAIRS) as h:
        bench = Bench(h)
        bench.add("a")
        bench.add("b")
        exclusive = [False]

        async def body() -> str:
            bench.started.append("c")
            return "result c"

        def is_safe(arguments: object) -> bool:
            return not exclusive[0]

        h.ctx[Tools].register(tool(name="c", description="c", is_concurrency_safe=is_safe)(body))
        h.ctx.on(RESULT, lambda executed: exclusive.__setitem__(0, True))
        h.agent.send("go")
        await bench.begun("b")
        bench.release("a")
        await breathe()
        assert (results(h), bench.started) == (["a"], ["a", "b"])
        bench.release("b")
        await h.agent.when_idle()
        assert results(h) == ["a", "b", "c"]


async def test_the_cap_is_honoured_with_replenishment() -> None:
    """L-116: cap 2, three calls: call, call, result, call."""
    model = script(reply(call("a"), call("b"), call("c")), say("ok"))
    async with running_harness(model=model, options=PAIRS) as h:
        bench = Bench(h)
        for name in ("a", "b", "c"):
            bench.add(name)
        h.agent.send("go")
        await bench.begun("b")
        await breathe()
        assert bench.started == ["a", "b"]
        bench.release("a")
        await bench.begun("c")
        bench.release("b", "c")
        await h.agent.when_idle()
        assert flow(h)[:4] == ["call a", "call b", "result call-1", "call c"]


async def test_a_cap_of_one_is_serial() -> None:
    """L-116."""
    async with running_harness(
        model=script(reply(call("a"), call("b")), say("ok")), options=ALONE
    ) as h:
        bench = Bench(h)
        bench.add("a")
        bench.add("b")
        bench.release("a", "b")
        await h.send("go")
        assert flow(h) == ["call a", "result call-1", "call b", "result call-2"]


async def test_the_agents_cap_wins_and_the_plugins_setting_is_live() -> None:
    """L-118: a changed setting takes effect at the next group, without a restart."""
    batch = reply(call("a"), call("b"))
    async with running_harness(model=script(batch, batch, say("ok"))) as h:
        [loop] = h.ctx.fibers(AgentLoop)
        bench = Bench(h)
        bench.add("a")
        bench.add("b")
        h.agent.send("go")
        await bench.begun("b")
        await loop.update({"maxParallelToolCalls": 1})
        bench.release("a", "b")
        await h.agent.when_idle()
        assert flow(h)[:2] == ["call a", "call b"]
        assert flow(h)[4:6] == ["call a", "result call-3"]
        assert h.ctx.fibers(AgentLoop) == (loop,)
        assert not h.agent.disposed


@pytest.mark.parametrize("cap", [0, -1, 1.5, "many"])
async def test_an_invalid_cap_is_refused(cap: object) -> None:
    """L-117: at load and on direct construction; the default is 10."""
    async with Container() as root:
        fiber = root.plugin(AgentLoop, {"maxParallelToolCalls": cap})
        await root.settle()
        assert isinstance(fiber.error, ConfigError)
    with pytest.raises(ValueError, match="max_parallel_tool_calls"):
        AgentOptions(max_parallel_tool_calls=cap)  # type: ignore[arg-type]
    assert AgentLoopConfig().max_parallel_tool_calls == 10


async def test_a_cancel_reaches_started_bodies_commits_them_and_pairs_the_rest() -> None:
    """L-123, L-124, L-126, L-217, L-306: contexts are parked; nothing outlives the turn."""
    model = script(reply(call("a"), call("b"), call("x"), call("c")))
    async with running_harness(model=model) as h:
        bench = Bench(h)
        for name in ("a", "b", "c"):
            bench.add(name)
        bench.add("x", safe=False)
        h.agent.send("go")
        await bench.begun("b")
        h.agent.cancel(USER)
        await h.agent.when_idle()
        assert (bench.started, sorted(bench.cancelled)) == (["a", "b"], ["a", "b"])
        aborted = ["ABORTED", "ABORTED", "ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]
        assert codes(h) == aborted
        assert h.turn_end == Aborted(USER)
        assert [m.text for m in h.agent.inbox.next_step] == ["context a", "context b"]
        h.model.add(say("ok"))
        await h.send("again")
        texts = [m.text for m in h.requests[-1].messages]
        assert texts[-3:] == ["context a", "context b", "again"]


async def test_a_body_that_ended_before_the_cancel_is_committed_as_aborted() -> None:
    """L-123, L-218: observers of started calls still run before the result is logged."""
    async with running_harness(model=script(reply(call("a"), call("b")))) as h:
        bench = Bench(h)
        bench.add("a")
        bench.add("b")
        observed: list[str] = []

        async def after(done: Executed, call_next: Next[PostDecision]) -> PostDecision:
            await anyio.lowlevel.checkpoint()
            observed.append(done.exec.name)
            return await call_next()

        h.ctx.on(POST_EXECUTE, after)
        h.agent.send("go")
        await bench.begun("b")
        bench.release("b")
        await breathe()
        h.agent.cancel(USER)
        await h.agent.when_idle()
        assert codes(h) == ["ABORTED", "ABORTED"]
        assert observed == ["a", "b"]


def veto_result(name: str) -> Callable[[Session, SessionEvent], None]:
    """A validator that refuses the result of one call."""

    def veto(session: Session, event: SessionEvent) -> None:
        if isinstance(event.view, ToolResult) and event.view.error is None:
            raise RuntimeError(f"no room for {name}")

    return veto


async def test_a_failure_of_the_scheduler_drains_bodies_and_answers_every_call() -> None:
    """L-125, L-308: it surfaces unwrapped; the next request is valid."""
    model = script(reply(call("a"), call("b"), call("c")), say("ok"))
    async with running_harness(model=model, options=PAIRS) as h:
        bench = Bench(h)
        for name in ("a", "b", "c"):
            bench.add(name)
        veto = h.ctx[Sessions].validator(veto_result("a"))
        h.agent.send("go")
        await bench.begun("b")
        bench.release("a")
        await breathe()
        assert h.agent.status == "running"
        bench.release("b")
        await h.agent.when_idle()
        veto.close()
        assert bench.started == ["a", "b"]
        assert codes(h) == ["TOOL_OUTCOME_UNKNOWN", "TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"]
        failed = h.turn_end
        assert isinstance(failed, Errored)
        assert failed.failure.message.startswith("RuntimeError: no room for a")
        assert await h.send("and now?") == "ok"
        assert h.turn_end == Completed()


async def test_a_cancel_while_a_failed_scheduler_drains_still_answers_every_call() -> None:
    """L-125, L-306: the log stays balanced, and the cancel decides the reason."""
    model = script(reply(call("a"), call("b")))
    async with running_harness(model=model, options=PAIRS) as h:
        bench = Bench(h)
        bench.add("a")
        bench.add("b")
        veto = h.ctx[Sessions].validator(veto_result("a"))
        h.agent.send("go")
        await bench.begun("b")
        bench.release("a")
        await breathe()
        veto.close()
        h.agent.cancel(USER)
        await h.agent.when_idle()
        assert codes(h) == ["TOOL_OUTCOME_UNKNOWN"] * 2
        assert (bench.cancelled, h.turn_end) == (["b"], Aborted(USER))


async def test_calls_that_cannot_be_prepared_fail_the_turn_and_are_answered() -> None:
    """L-125: a call without an id, put in by a listener; the next request is valid."""
    async with running_harness(model=script(call("a"), say("ok"))) as h:
        bench = Bench(h)
        bench.add("a")

        async def spoil(step: StepResult, call_next: Next[Message]) -> Message:
            message = await call_next()
            anonymous = ToolCallBlock("", "a", "{}")
            return replace(message, content=(*message.content, anonymous))

        h.ctx.once(STEP_RESULT, spoil)
        await h.send("go")
        assert (bench.started, codes(h)) == ([], ["TOOL_NOT_STARTED"] * 2)
        assert isinstance(h.turn_end, Errored)
        await h.send("again")
        assert h.transcript[-1] == "assistant: ok"
