from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from terret_agents import (
    Agent,
    Agents,
    NoInitiatorError,
    current_initiator,
    require_initiator,
)
from terret_context import Container, Context, plugin
from terret_testing import Harness, running_harness


@asynccontextmanager
async def two_agents() -> AsyncIterator[tuple[Harness, Agent, Agent]]:
    async with running_harness() as h, await h.ctx[Agents].create(session_id="b") as other:
        yield h, h.agent, other.agent


async def test_nobody_is_the_initiator_by_default() -> None:
    """A-023."""
    assert current_initiator() is None
    with pytest.raises(NoInitiatorError) as caught:
        require_initiator()
    assert caught.value.code == "NO_INITIATOR"


async def test_a_block_spans_awaits_and_passes_results_and_exceptions_through() -> None:
    """A-024, A-025: nested and cleared blocks are restored on any exit."""
    async with two_agents() as (h, one, two):
        agents = h.ctx[Agents]
        with agents.with_initiator(one):
            await anyio.lowlevel.checkpoint()
            assert require_initiator() is one
            inside: list[Agent] = []

            def fail() -> None:
                with agents.with_initiator(two):
                    inside.append(require_initiator())
                    raise LookupError

            with pytest.raises(LookupError):
                fail()
            assert inside == [two]
            assert current_initiator() is one
            with agents.without_initiator():
                assert current_initiator() is None
            assert current_initiator() is one
        assert current_initiator() is None


async def test_overlapping_blocks_are_isolated_and_spawned_tasks_inherit() -> None:
    """A-025."""
    async with two_agents() as (h, one, two):
        seen: dict[str, Agent | None] = {}
        both = anyio.Event()

        async def child(name: str) -> None:
            await both.wait()
            seen[name] = current_initiator()

        async def run(agent: Agent) -> None:
            with h.ctx[Agents].with_initiator(agent):
                async with anyio.create_task_group() as inner:
                    inner.start_soon(child, agent.id)
                    if agent is two:
                        both.set()
                    await both.wait()

        async with anyio.create_task_group() as group:
            group.start_soon(run, one)
            group.start_soon(run, two)
        assert seen == {"test": one, "b": two}


async def test_a_closing_service_refuses_new_blocks_and_awaits_open_ones() -> None:
    """A-026: reading stays legal."""
    async with running_harness() as h, Container() as root:
        service = root.plugin(Agents)
        await service.ready()
        agents = root[Agents]
        entered, leave = anyio.Event(), anyio.Event()
        ended: list[str] = []

        async def block() -> None:
            with agents.with_initiator(h.agent):
                entered.set()
                await leave.wait()
                ended.append("block")

        async def close() -> None:
            await service.dispose()
            ended.append("service")

        async with anyio.create_task_group() as group:
            group.start_soon(block)
            await entered.wait()
            group.start_soon(close)
            while service.admits:
                await anyio.lowlevel.checkpoint()
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            with pytest.raises(RuntimeError, match="closing"), agents.with_initiator(h.agent):
                pass
            leave.set()
        assert ended == ["block", "service"]


@pytest.mark.parametrize("above", [False, True])
async def test_a_block_that_starts_the_teardown_is_not_waited_for(above: bool) -> None:
    """A-027: nor one around it; unrelated blocks are still drained first."""
    async with running_harness() as h, Container(grace=60) as root:

        @plugin
        def around(ctx: Context) -> None:
            ctx.plugin(Agents)

        outer = root.plugin(around)
        await root.settle()
        [service] = root.fibers(Agents)
        agents = service.ctx[Agents]
        entered, leave = anyio.Event(), anyio.Event()
        ended: list[str] = []

        async def unrelated() -> None:
            with agents.with_initiator(h.agent):
                entered.set()
                await leave.wait()
                ended.append("unrelated")

        async def teardown() -> None:
            with agents.with_initiator(h.agent), agents.without_initiator():
                await (outer if above else service).dispose()
                ended.append("teardown")

        async with anyio.create_task_group() as group:
            group.start_soon(unrelated)
            await entered.wait()
            group.start_soon(teardown)
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert ended == []
            leave.set()
        assert ended == ["unrelated", "teardown"]
