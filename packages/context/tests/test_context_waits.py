"""Waits that could never end, and waits that look like them."""

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import (
    Container,
    Context,
    Fiber,
    FiberState,
    LifecycleDeadlockError,
    PluginFailedError,
    ServiceKey,
    plugin,
)

TOOL: ServiceKey[object] = ServiceKey("tool")
Wait = Callable[[Fiber], Awaitable[object]]

OWN_WAITS: dict[str, Wait] = {
    "settled": lambda fiber: fiber.settled(),
    "ready": lambda fiber: fiber.ready(),
    "dispose": lambda fiber: fiber.dispose(),
    "restart": lambda fiber: fiber.restart(),
    "update": lambda fiber: fiber.update(None),
}


@pytest.mark.parametrize("name", OWN_WAITS)
@pytest.mark.parametrize("kind", ["load", "unload"])
async def test_waiting_for_oneself_in_a_transition_is_refused(name: str, kind: str) -> None:
    """C-213: in the body and in its teardown, with the path."""
    raised: list[str] = []

    async def attempt(ctx: Context) -> None:
        try:
            await OWN_WAITS[name](ctx.fiber)
        except LifecycleDeadlockError as error:
            raised.append(str(error))

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        if kind == "load":
            await attempt(ctx)
        yield
        if kind == "unload":
            await attempt(ctx)

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.dispose(check=True)
    assert raised == [
        f'this wait can never end: plugin "body" ({kind}) waits for itself ({name}), '
        'which waits for plugin "body"; `retire()` only asks, and a task of `ctx.spawn` may wait'
    ]


@pytest.mark.parametrize("name", [*OWN_WAITS, "settle", "reset"])
async def test_waiting_for_an_ancestor_in_a_transition_is_refused(name: str) -> None:
    """C-415: any of the calls, for a parent or for the whole container."""

    async def child(ctx: Context) -> None:
        parent = ctx.fiber.parent
        assert parent is not None
        assert parent.parent is not None
        if name in OWN_WAITS:
            await OWN_WAITS[name](parent)
        else:
            await getattr(root, name)()

    def parent(ctx: Context) -> None:
        ctx.plugin(child)

    async with Container() as root:
        mounted = root.plugin(parent)
        await root.settle()
        (fiber,) = root.fibers(child)
        if name == "ready":  # of an ancestor that is ACTIVE: there is nothing to wait for
            assert fiber.state is FiberState.ACTIVE
            return
        with pytest.raises(PluginFailedError) as raised:
            await fiber.ready()
        awaited = "root" if name in ("settle", "reset") else str(mounted)
        assert str(raised.value.__cause__) == (
            f'this wait can never end: plugin "child" (load) waits for its ancestor {awaited} '
            f'({name}), which waits for plugin "child"; '
            "`retire()` only asks, and a task of `ctx.spawn` may wait"
        )


async def test_ready_of_a_loading_ancestor_is_refused() -> None:
    """C-415: only `ready()` of an ACTIVE ancestor returns."""
    gate = anyio.Event()

    async def child(ctx: Context) -> None:
        assert ctx.fiber.parent is not None
        await ctx.fiber.parent.ready()

    async def parent(ctx: Context) -> None:
        ctx.plugin(child)
        await gate.wait()

    async with Container() as root:
        root.plugin(parent)
        while not (fibers := root.fibers(child)):
            await checkpoint()
        with pytest.raises(PluginFailedError, match="waits for its ancestor"):
            await fibers[0].ready()
        gate.set()


async def test_a_spawned_task_may_wait_for_its_own_fiber() -> None:
    """C-410: also when it was spawned inside the body."""
    done: list[str] = []

    async def follow(ctx: Context) -> None:
        await ctx.fiber.ready()
        await ctx.fiber.settled()
        done.append("ready")
        if len(done) == 1:
            await ctx.fiber.restart()

    async def body(ctx: Context) -> None:
        ctx.spawn(follow, ctx)
        await checkpoint()

    async with Container() as root:
        fiber = root.plugin(body)
        while len(done) < 2:
            await checkpoint()
        await fiber.ready()
    assert done == ["ready", "ready"]


async def test_a_task_of_a_held_group_may_wait_once_the_load_is_over() -> None:
    """C-410: code that a body left running is no longer inside of its load."""
    done = anyio.Event()

    async def follow(ctx: Context) -> None:
        while ctx.fiber.state is not FiberState.ACTIVE:
            await checkpoint()
        await ctx.fiber.settled()
        await ctx.fiber.ready()
        done.set()

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(follow, ctx)
            yield

    async with Container() as root:
        fiber = root.plugin(body)
        await done.wait()
        assert fiber.state is FiberState.ACTIVE


async def test_two_fibers_that_wait_for_each_other_are_told_why() -> None:
    """C-416: the text of the `TimeoutError` contains the explanation of the awaited fiber."""
    texts: list[str] = []

    def waiter(other: str, seconds: float) -> Callable[[Context], Awaitable[None]]:
        async def body(ctx: Context) -> None:
            (fiber,) = (one for one in root.fibers() if one.name == other)
            try:
                await fiber.ready(timeout=seconds)
            except TimeoutError as error:
                texts.append(str(error))

        return body

    async with Container() as root:
        root.plugin(waiter("b", 2), name="a")
        root.plugin(waiter("a", 50), name="b")
        await root.settle()
    assert texts == [
        'plugin "b" is not ready after 2 s: plugin "b" is LOADING for 2.0 s; '
        'it waits for plugin "a", which is LOADING'
    ]


async def test_two_teardowns_that_await_each_other_end_by_grace() -> None:
    """C-416: each is cancelled and reported."""
    fibers: list[Fiber] = []

    def member(other: int) -> Callable[[Context], AsyncIterator[None]]:
        async def body(ctx: Context) -> AsyncIterator[None]:
            yield
            await fibers[other].dispose()

        return body

    async with Container(grace=2) as root:
        fibers += [root.plugin(member(1), name="a"), root.plugin(member(0), name="b")]
        await root.settle()
        begun = anyio.current_time()
        async with anyio.create_task_group() as group:
            for fiber in fibers:
                group.start_soon(fiber.dispose)
        assert anyio.current_time() - begun == 2


async def test_a_task_of_another_fiber_may_wait_for_a_transition() -> None:
    """C-410: only code of the transition itself is refused."""
    seen: list[FiberState] = []
    async with Container() as root:
        fiber = root.plugin(lambda ctx: None, name="fine")

        async def watch(ctx: Context) -> None:
            await fiber.ready()
            await fiber.dispose()
            seen.append(fiber.state)

        await root.plugin(lambda ctx: None, name="other").ready()
        await root.spawn(watch, root).join()
    assert seen == [FiberState.DISPOSED]
