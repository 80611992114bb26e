import threading

import anyio
import pytest

from terret_sessions.storage import BlockingCalls


async def test_a_cancelled_caller_waits_for_its_thread() -> None:
    """M-119: Within `grace` the call comes to its end, and the cancellation goes on."""
    started, go, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go.wait(10)
        done.set()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(BlockingCalls(grace=60).run, work)
            await anyio.to_thread.run_sync(started.wait)
            scope.cancel()
            go.set()

    assert scope.cancelled_caught
    assert done.is_set()


async def test_a_thread_that_hangs_is_left_alone_after_grace() -> None:
    """M-119: A disk that does not answer cannot hold up a teardown for ever."""
    started, go = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        go.wait(60)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(BlockingCalls(grace=0).run, hang)
            await anyio.to_thread.run_sync(started.wait)
            scope.cancel()
    finished = go.is_set()
    go.set()

    assert not finished


async def test_a_thread_hands_over_result_and_error() -> None:
    """M-119: As it is, without a group around it."""
    threads = BlockingCalls(grace=1)

    assert await threads.run(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
