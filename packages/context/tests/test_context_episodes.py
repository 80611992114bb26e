"""Episodes: the one task in which the asynchronous parts of a load and its unload run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar, copy_context

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint

from terret_context import (
    Container,
    Context,
    FiberState,
    PluginDefinitionError,
    PluginFailedError,
    plugin,
)

ACTIVE, FAILED, PENDING = FiberState.ACTIVE, FiberState.FAILED, FiberState.PENDING
LANGUAGE: ContextVar[str] = ContextVar("language", default="unset")


def task() -> object:
    """The running task itself: the id of one that ended may be that of the next."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return trio.lowlevel.current_task()


async def test_one_episode_runs_in_one_task_that_ends_with_it() -> None:
    """C-243: load and unload in one task, a new one for the next load, none is left over."""
    tasks: list[object] = []

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        async def undo() -> None:
            tasks.append(task())

        tasks.append(task())
        ctx.effect(lambda: undo)
        await checkpoint()
        yield
        tasks.append(task())

    async with Container() as root:
        before = {one.id for one in anyio.get_running_tasks()}
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.restart()
        await fiber.dispose()
        await anyio.sleep(60)
        assert {one.id for one in anyio.get_running_tasks()} == before
    first, second = tasks[:3], tasks[3:]
    assert len(set(first)) == len(set(second)) == 1
    assert set(first).isdisjoint(second)


async def test_scopes_are_entered_and_left_in_one_task_in_every_episode() -> None:
    """C-244, C-403: task groups and cancel scopes held open across the `yield`."""
    trace: list[str] = []

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        ours = task()
        with anyio.CancelScope():
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                yield
                group.cancel_scope.cancel()
        trace.append(f"same task: {task() is ours}")

    async with Container() as root:
        fiber = root.plugin(body)
        for _ in range(3):
            await fiber.ready()
            await fiber.restart()
    assert trace == ["same task: True"] * 4


async def test_a_failing_child_of_a_held_group_fails_the_fiber_with_the_group() -> None:
    """C-244: the group of errors comes out of the body."""
    gate = anyio.Event()
    trace: list[str] = []

    async def fail() -> None:
        await gate.wait()
        raise ValueError("child")

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        ctx.effect(lambda: lambda: trace.append("effect undone"))
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            yield
        trace.append("unreachable")

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        gate.set()
        await fiber.changed()
        await fiber.settled()
        with pytest.raises(PluginFailedError) as raised:
            await fiber.ready()
        assert fiber.state is FAILED
    assert isinstance(raised.value.__cause__, ExceptionGroup)
    assert [str(error) for error in raised.value.__cause__.exceptions] == ["child"]
    assert trace == ["effect undone"]


async def test_a_held_group_that_fails_during_the_unload_is_a_failure_of_the_teardown() -> None:
    """C-244, C-404: the undo that runs is not disturbed, and scopes still nest."""
    gate = anyio.Event()
    trace: list[str] = []

    async def fail() -> None:
        await gate.wait()
        raise ValueError("child")

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        async def undo() -> None:
            gate.set()
            await anyio.sleep(1)
            trace.append("undone")

        ctx.effect(lambda: undo)
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            yield

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        with pytest.raises(ExceptionGroup) as raised:
            await fiber.dispose(check=True)
    assert trace == ["undone"]
    assert [str(error) for error in raised.value.exceptions] == ["child"]


async def test_a_scope_that_a_body_holds_and_that_expires_fails_the_fiber() -> None:
    """C-244, C-418: the scope that was cancelled catches it, and the body has ended early."""
    trace: list[str] = []

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        with anyio.move_on_after(5) as scope:
            yield
        trace.append(f"caught: {scope.cancelled_caught}")

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.changed()
        await fiber.settled()
        assert fiber.state is FAILED
        with pytest.raises(PluginFailedError, match="ended by itself while the plugin was up"):
            await fiber.ready()
    assert trace == ["caught: True"]


async def test_code_of_a_body_that_cancels_its_own_scope_goes_on_after_it() -> None:
    """C-418: a cancelled scope alone ends a body, and that scope catches it."""
    trace: list[str] = []

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await checkpoint()
            trace.append("unreachable")
        await checkpoint()
        yield
        with anyio.move_on_after(1):
            await anyio.sleep_forever()
        await checkpoint()
        trace.append("torn down")

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.dispose(check=True)
    assert trace == ["torn down"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_variables_that_a_body_sets_stay_its_own(asynchronous: bool) -> None:
    """C-411: seen neither by other plugins nor by the host."""
    seen: list[str] = []

    def plain(ctx: Context) -> None:
        seen.append(LANGUAGE.get())
        LANGUAGE.set("set by a body")

    async def slow(ctx: Context) -> None:
        plain(ctx)

    async with Container() as root:
        for name in ("a", "b"):
            await root.plugin(slow if asynchronous else plain, name=name).ready()
        seen.append(LANGUAGE.get())
    assert seen == ["unset"] * 3


async def test_a_spawned_task_gets_a_copy_of_its_callers_variables() -> None:
    """C-411: the caller's variables, or those of the context in which `spawn` runs."""
    seen: list[str] = []

    async def look() -> None:
        seen.append(LANGUAGE.get())
        LANGUAGE.set("set by the task")

    async with Container() as root:
        token = LANGUAGE.set("of the caller")
        try:
            await root.spawn(look).join()
        finally:
            LANGUAGE.reset(token)
        await root.spawn(look).join()
        other = copy_context()
        other.run(LANGUAGE.set, "of another context")
        await other.run(root.spawn, look).join()
    assert seen == ["of the caller", "unset", "of another context"]


Body = Callable[[Context], object]


def plain_early(ctx: Context) -> object:
    if ctx is None:
        yield
    return


async def async_early(ctx: Context) -> AsyncIterator[None]:
    if ctx is None:
        yield


@pytest.mark.parametrize("body", [plain_early, async_early])
async def test_a_generator_body_that_ends_before_its_yield_fails(body: Body) -> None:
    """C-261: the load fails."""
    async with Container() as root:
        fiber = root.plugin(body, name="early")
        with pytest.raises(PluginFailedError) as raised:
            await fiber.ready()
    assert str(raised.value.__cause__) == 'the body of plugin "early" ended before its `yield`'
    assert isinstance(raised.value.__cause__, PluginDefinitionError)


def plain_twice(ctx: Context) -> object:
    try:
        yield
        yield
    finally:
        ctx.fiber.entry = "closed"


async def async_twice(ctx: Context) -> AsyncIterator[None]:
    try:
        yield
        yield
    finally:
        ctx.fiber.entry = "closed"


@pytest.mark.parametrize("body", [plain_twice, async_twice])
async def test_a_second_yield_is_closed_and_reported(body: Body) -> None:
    """C-261: the teardown ends, and says so."""
    async with Container() as root:
        fiber = root.plugin(body, name="twice")
        await fiber.ready()
        with pytest.raises(ExceptionGroup) as raised:
            await fiber.dispose(check=True)
        assert fiber.entry == "closed"
    assert [str(error) for error in raised.value.exceptions] == [
        'body "twice" yielded again in its teardown; one bare `yield` suspends'
    ]


def plain_value(ctx: Context) -> object:
    yield 3


async def async_value(ctx: Context) -> AsyncIterator[int]:
    yield 3


@pytest.mark.parametrize("body", [plain_value, async_value])
async def test_a_body_that_yields_a_value_fails(body: Body) -> None:
    """C-261: a body has exactly one bare `yield`."""
    async with Container() as root:
        fiber = root.plugin(body, name="value")
        with pytest.raises(PluginFailedError) as raised:
            await fiber.ready()
    assert str(raised.value.__cause__) == (
        'the body of plugin "value" yielded 3; a body has one bare `yield` '
        "(use `ctx.effect` to register something)"
    )


async def test_a_body_may_return_an_undo() -> None:
    """C-051, C-239: a returned callable is one more effect; anything else fails the load."""
    trace: list[str] = []

    def good(ctx: Context) -> Callable[[], None]:
        ctx.effect(lambda: lambda: trace.append("effect"))
        return lambda: trace.append("returned")

    async def bad(ctx: Context) -> int:
        return 3

    async with Container() as root:
        fiber = root.plugin(good)
        await fiber.ready()
        await fiber.dispose()
        assert trace == ["returned", "effect"]
        with pytest.raises(PluginFailedError) as raised:
            await root.plugin(bad).ready()
    assert str(raised.value.__cause__) == (
        'undo of "bad": 3 cannot be undone; use None, a function, a context manager, an effect, '
        "or a generator function of these"
    )


async def test_a_plain_body_that_returns_a_coroutine_fails() -> None:
    """C-239: it has to be an async function."""

    async def late() -> None: ...

    async with Container() as root:
        fiber = root.plugin(lambda ctx: late(), name="sly")
        with pytest.raises(PluginFailedError, match="a plain body returned a coroutine"):
            await fiber.ready()
