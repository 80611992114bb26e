"""A clock that a test moves."""

import anyio

from terret_agents import clock_of, timestamp
from terret_testing import ManualClock, running_harness


async def test_sleepers_wake_when_their_time_has_come() -> None:
    clock = ManualClock()
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with anyio.create_task_group() as group:
        for seconds in (2, 1):
            group.start_soon(sleep, seconds)
        await clock.sleeping()
        await anyio.wait_all_tasks_blocked()
        clock.advance(1)
        await anyio.wait_all_tasks_blocked()
        assert woken == [1]
        clock.advance(1)
    assert woken == [1, 2]
    assert timestamp(clock.now()) == "2026-01-01T00:00:02.000Z"


async def test_it_is_the_clock_of_the_harness_that_mounts_it() -> None:
    clock = ManualClock()
    async with running_harness(plugins=[clock.plugin()]) as h:
        assert clock_of(h.ctx) is clock
