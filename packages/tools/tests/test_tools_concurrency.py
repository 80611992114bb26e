"""Which calls may run beside others."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from terret_context import ContainedError
from terret_testing import Harness, call, reply, running_harness, say, script
from terret_tools import Tool, ToolExec, ToolRun, Tools, tool


@pytest.fixture
async def h() -> AsyncIterator[Harness]:
    async with running_harness() as harness:
        yield harness


def mode(h: Harness, *, own: bool = False, **arguments: object) -> str:
    agent = h.agent if own else None
    exec = ToolExec(call_id="c", name="look", arguments=arguments, agent=agent)
    return h.ctx[Tools].execution_mode(exec)


def register(h: Harness, classify: Callable[[Any], object] | None) -> None:
    @tool(is_concurrency_safe=classify)
    async def look(place: str, write: bool = False) -> str:
        """Look."""
        return place

    h.ctx[Tools].register(look)


async def test_only_exact_true_makes_a_call_parallel(h: Harness) -> None:
    """T-030: Parallel only on exact True, asked with the arguments of the call."""
    register(h, lambda args: not args["write"])
    assert mode(h, place="here") == "parallel"
    assert mode(h, place="here", write=True) == "exclusive"


@pytest.mark.parametrize("answer", [False, None, 1, "yes", [True]])
async def test_anything_else_is_exclusive(h: Harness, answer: object) -> None:
    """T-030: Truthy is not True."""
    register(h, lambda args: answer)
    assert mode(h, place="here") == "exclusive"


async def test_doubtful_calls_are_exclusive(h: Harness) -> None:
    """T-030: Missing classifier, unknown, hidden and invalid-argument cases, without raising."""
    assert mode(h, place="here") == "exclusive"
    register(h, lambda args: True)
    assert mode(h, place=5) == "exclusive"
    assert mode(h, place="here", own=True) == "parallel"
    h.agent.ctx[Tools].restrict(deny=["look"])
    assert mode(h, place="here", own=True) == "exclusive"
    plain = Tool(name="look", description="", parameters={"type": "object"}, execute=print)
    h.agent.ctx[Tools].register(plain)
    assert mode(h, own=True) == "exclusive"


async def test_a_classifier_that_raises_is_reported_and_exclusive(h: Harness) -> None:
    """T-030: Raising is exclusive."""
    errors: list[ContainedError] = []

    def broken(args: object) -> bool:
        raise LookupError("no idea")

    h.ctx.on("internal/error", errors.append)
    register(h, broken)
    assert mode(h, place="here") == "exclusive"
    assert [each.label for each in errors] == ['concurrency of tool "look"']


async def test_parallel_calls_of_a_turn_overlap_and_answer_in_order() -> None:
    """T-030: The loop runs parallel-safe bodies side by side."""
    both = [anyio.Event(), anyio.Event()]

    @tool(is_concurrency_safe=lambda args: True)
    async def meet(run: ToolRun, seat: int) -> str:
        """Wait for the other one."""
        both[seat].set()
        await both[1 - seat].wait()
        return f"seat {seat}"

    model = script(reply(call("meet", seat=0), call("meet", seat=1)), say("met"))
    async with running_harness(model=model) as h:
        h.ctx[Tools].register(meet)
        assert await h.send("meet") == "met"
        assert h.transcript[-3:] == ("result: seat 0", "result: seat 1", "assistant: met")
