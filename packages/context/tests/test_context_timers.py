"""`terret_context.timers`, in virtual time."""

import anyio
import pytest

from terret_context import (
    Container,
    Context,
    Fiber,
    FiberState,
    InactiveFiberError,
    PluginFailedError,
)
from terret_context.timers import after, debounce, every, throttle, ticks


class Log:
    """Notes values and the seconds at which they came."""

    def __init__(self) -> None:
        self.start = anyio.current_time()
        self.lines: list[tuple[float, object]] = []

    def __call__(self, value: object = None) -> None:
        self.lines.append((anyio.current_time() - self.start, value))

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.lines]


async def mounted(root: Container) -> tuple[Fiber, Context]:
    fiber = root.plugin(lambda ctx: None, name="timed")
    await fiber.ready()
    context: Context = fiber.ctx
    return fiber, context


async def test_after_calls_once_after_the_delay() -> None:
    """C-134: not at once, and not again."""
    async with Container() as root:
        log = Log()
        handle = after(root, 3, log)
        assert log.lines == []
        await anyio.sleep(20)
        assert log.times == [3]
        assert handle.done


async def test_after_calls_an_async_function_too() -> None:
    """C-134: in the task of the timer."""
    async with Container() as root:
        log = Log()

        async def fn() -> None:
            await anyio.sleep(1)
            log()

        await after(root, 3, fn).join()
        assert log.times == [4]


async def test_after_never_calls_once_its_context_is_disposed() -> None:
    """C-135: disposed before the delay was over."""
    async with Container() as root:
        log = Log()
        fiber, ctx = await mounted(root)
        after(ctx, 3, log)
        await anyio.sleep(1)
        await fiber.dispose()
        await anyio.sleep(20)
        assert log.lines == []


async def test_awaiting_after_returns_at_the_delay() -> None:
    """C-136: a later disposal of the context has no effect on it."""
    async with Container() as root:
        log = Log()
        fiber, ctx = await mounted(root)
        timer = after(ctx, 3)
        assert await timer is timer
        log()
        await fiber.dispose()
        await timer
        assert log.times == [3]


async def test_awaiting_a_timer_that_was_cancelled_raises() -> None:
    """C-136, C-142: by its handle, or by the disposal of its context."""
    async with Container() as root:
        fiber, ctx = await mounted(root)
        timer = after(ctx, 3)
        async with anyio.create_task_group() as group:
            group.start_soon(fiber.dispose)
            with pytest.raises(InactiveFiberError, match='cannot wait for timer "3 s": plugin "t'):
                await timer


async def test_a_failing_timer_fails_its_fiber() -> None:
    """C-236: a timer is a task of the fiber."""

    def explode() -> None:
        raise ValueError("boom")

    async with Container() as root:
        fiber, ctx = await mounted(root)
        await after(ctx, 3, explode).join()
        await fiber.settled()
        assert fiber.state is FiberState.FAILED
        with pytest.raises(PluginFailedError, match='failed by its timer "explode": ValueError'):
            await fiber.ready()


async def test_every_repeats_until_it_is_disposed() -> None:
    """C-137: without drift, whatever the calls take."""
    async with Container() as root:
        log = Log()
        fiber, ctx = await mounted(root)

        async def fn() -> None:
            log()
            await anyio.sleep(0.5)

        every(ctx, 2, fn)
        await anyio.sleep(7)
        await fiber.dispose()
        await anyio.sleep(20)
        assert log.times == [2, 4, 6]


async def test_every_leaves_out_calls_that_were_due_while_one_ran() -> None:
    """C-137: calls do not overlap and do not pile up."""
    async with Container() as root:
        log = Log()

        async def fn() -> None:
            log()
            if len(log.lines) == 1:
                await anyio.sleep(5)

        handle = every(root, 2, fn)
        await anyio.sleep(11)
        await handle.aclose()
        assert log.times == [2, 7, 8, 10]


async def test_a_timer_that_repeats_needs_a_positive_time() -> None:
    """C-137, C-138: it would never let anything else run."""
    async with Container() as root:
        with pytest.raises(ValueError, match="needs a positive time, not 0"):
            ticks(root, 0)


async def test_ticks_step_until_the_iterator_is_closed() -> None:
    """C-138: closing ends it, and nothing is left of the timer."""
    async with Container() as root:
        log = Log()
        iterator = ticks(root, 2)
        async for number in iterator:
            log(number)
            if number == 3:
                await iterator.aclose()
        await anyio.sleep(20)
        assert log.lines == [(2, 1), (4, 2), (6, 3)]
        assert not root.fiber.effects


async def test_raising_into_ticks_ends_them() -> None:
    """C-139: the error is raised, and no step follows."""
    async with Container() as root:
        iterator = ticks(root, 2)
        with pytest.raises(ValueError, match="enough"):
            await iterator.athrow(ValueError("enough"))
        assert [number async for number in iterator] == []


async def test_breaking_out_of_ticks_ends_them() -> None:
    """C-140: no more ticks, nothing left behind."""
    async with Container() as root:
        log = Log()
        async for number in ticks(root, 2):
            log(number)
            break
        await anyio.sleep(20)
        assert log.lines == [(2, 1)]
        assert not root.fiber.effects


async def test_an_error_in_the_loop_is_raised_to_the_caller_of_the_loop() -> None:
    """C-141: and stops the timer."""
    async with Container() as root:
        log = Log()

        async def loop() -> None:
            async for number in ticks(root, 2):
                log(number)
                raise ValueError("body")

        with pytest.raises(ValueError, match="body"):
            await loop()
        await anyio.sleep(20)
        assert log.lines == [(2, 1)]


@pytest.mark.parametrize("how", ["dispose", "restart"])
async def test_disposing_the_context_raises_in_the_pending_step(how: str) -> None:
    """C-142: also a restart ends the ticks of the load before."""
    async with Container() as root:
        log = Log()
        fiber, ctx = await mounted(root)
        iterator = ticks(ctx, 2)
        async with anyio.create_task_group() as group:
            assert await anext(iterator) == 1
            group.start_soon(getattr(fiber, how))
            with pytest.raises(InactiveFiberError, match='cannot wait for the next tick: plugin "'):
                await anext(iterator)
            log()
        assert log.times == [2]
        with pytest.raises(StopAsyncIteration):
            await anext(iterator)


async def test_ticks_leave_out_steps_that_were_due_while_the_body_ran() -> None:
    """C-138: the steps keep their times."""
    async with Container() as root:
        log = Log()
        async for number in ticks(root, 2):
            log(number)
            if number == 1:
                await anyio.sleep(5)
            if number == 3:
                break
        assert log.lines == [(2, 1), (7, 2), (8, 3)]


async def test_throttle_calls_at_once_and_once_more_at_the_end_of_the_window() -> None:
    """C-143, C-144: the last of the calls inside; none after it."""
    async with Container() as root:
        log = Log()
        call = throttle(root, 5, log)
        for value in "abc":
            call(value)
            await anyio.sleep(1)
        await anyio.sleep(30)
        assert log.lines == [(0, "a"), (5, "c")]
        call("d")
        assert log.lines[2:] == [(33, "d")]


async def test_throttle_opens_a_new_window_with_its_trailing_call() -> None:
    """C-144: never two calls within the time."""
    async with Container() as root:
        log = Log()
        call = throttle(root, 5, log)
        for value in range(9):
            call(value)
            await anyio.sleep(1.5)
        await anyio.sleep(30)
        assert log.lines == [(0, 0), (5, 3), (10, 6), (15, 8)]


async def test_a_throttled_function_does_nothing_after_the_disposal() -> None:
    """C-145: neither the trailing call nor a new one."""
    async with Container() as root:
        log = Log()
        fiber, ctx = await mounted(root)
        call = throttle(ctx, 5, log)
        call("first")
        call("trailing")
        await fiber.restart()
        call("after")
        await anyio.sleep(20)
        assert log.lines == [(0, "first")]


async def test_debounce_calls_once_when_no_more_calls_came() -> None:
    """C-146: only the last call of a burst, once, after the delay."""
    async with Container() as root:
        log = Log()
        call = debounce(root, 5, log)
        for value in "abc":
            call(value)
            await anyio.sleep(3)
        await anyio.sleep(30)
        assert log.lines == [(11, "c")]
        call("d")
        await anyio.sleep(30)
        assert log.lines[1:] == [(44, "d")]


async def test_a_debounced_function_does_nothing_after_the_disposal() -> None:
    """C-147: never runs."""
    async with Container() as root:
        log = Log()
        fiber, ctx = await mounted(root)
        call = debounce(ctx, 5, log)
        call("first")
        await fiber.restart()
        call("after")
        await anyio.sleep(20)
        assert log.lines == []
