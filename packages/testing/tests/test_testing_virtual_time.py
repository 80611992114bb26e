"""Waiting that takes no time."""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from terret_testing import Harness, ScriptedModel, call, say, script
from terret_tools import Tools, tool

pytestmark = pytest.mark.virtual_time

Boot = Callable[..., AbstractAsyncContextManager[Harness]]


async def test_a_day_passes_at_once_and_in_order() -> None:
    """Waits end in the order of their time, and the clock of the loop shows it."""
    began, real = anyio.current_time(), time.monotonic()
    woken: list[int] = []

    async def sleep(hours: int) -> None:
        await anyio.sleep(hours * 3600)
        woken.append(hours)

    async with anyio.create_task_group() as group:
        for hours in (24, 3, 12):
            group.start_soon(sleep, hours)
    assert woken == [3, 12, 24]
    assert anyio.current_time() - began == pytest.approx(24 * 3600, abs=1)
    assert time.monotonic() - real < 3600


async def test_limits_of_time_end_what_takes_longer() -> None:
    with pytest.raises(TimeoutError):
        with anyio.fail_after(60):
            await anyio.sleep(61)
    with anyio.move_on_after(60) as limit:
        await anyio.sleep(59)
    assert not limit.cancelled_caught


async def test_threads_get_the_time_they_need() -> None:
    """A wait for a thread is no wait for time, so nothing jumps over it for long."""
    done: list[int] = []

    def work() -> None:
        time.sleep(0.01)
        done.append(1)

    with anyio.move_on_after(3600):
        await anyio.to_thread.run_sync(work)
    assert done == [1]


async def test_a_tool_may_be_slow(harness: Boot) -> None:
    @tool
    async def ferment() -> str:
        """Wait for two weeks."""
        await anyio.sleep(14 * 24 * 3600)
        return "sour"

    model: ScriptedModel = script(call("ferment"), say("It is ready."))
    async with harness(model=model) as h:
        h.ctx[Tools].register(ferment)
        assert await h.send("How is it?") == "It is ready."
