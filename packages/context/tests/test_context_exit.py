"""The end of a container: order, cancellation of the host, exit requests of plugin code."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import (
    Container,
    Context,
    ContextError,
    Emit,
    Fiber,
    FiberState,
    InactiveFiberError,
    ServiceKey,
    TeardownTimeoutError,
    plugin,
)

TOOL: ServiceKey[object] = ServiceKey("tool")
PING = Emit[str]("tests/exit-ping", doc="For the tests of the exit.")


def mount_tree(root: Container, trace: list[str]) -> list[Fiber]:
    """A provider, a consumer and a child, each with a slow teardown that notes its end."""

    def member(name: str, inside: Callable[[Context], object]) -> object:
        @plugin(name=name)
        async def body(ctx: Context) -> AsyncIterator[None]:
            inside(ctx)
            yield
            try:
                await anyio.sleep(1)
            finally:
                trace.append(f"{name} is down")

        return body

    child = member("child", lambda ctx: None)
    return [
        root.plugin(member("provider", lambda ctx: ctx.provide(TOOL, 1))),
        root.plugin(member("consumer", lambda ctx: ctx.plugin(child)), inject=[TOOL]),
    ]


async def run(block: Callable[[Container], Awaitable[object]], **options: Any) -> None:
    """Runs a block in a container of its own."""
    async with Container(**options) as root:
        await block(root)


IN_ORDER = ["child is down", "consumer is down", "provider is down"]


async def test_a_normal_exit_disposes_everything_in_order() -> None:
    """C-050, C-251: consumers before providers, children before parents; exit is final."""
    trace: list[str] = []
    async with Container() as root:
        mount_tree(root, trace)
        await root.settle()
    assert trace == IN_ORDER
    assert root.fiber.state is FiberState.DISPOSED
    with pytest.raises(InactiveFiberError, match="root is DISPOSED"):
        root.effect(lambda: None)
    with pytest.raises(ContextError, match="a Container is entered once"):
        await root.__aenter__()


async def test_exit_under_a_cancelled_host_scope_keeps_the_order() -> None:
    """C-251, C-408: the block ends at its next checkpoint, the teardown is complete."""
    trace: list[str] = []
    with anyio.CancelScope() as scope:
        async with Container() as root:
            mount_tree(root, trace)
            await root.settle()
            scope.cancel()
            await checkpoint()
            trace.append("unreachable")
    assert scope.cancelled_caught
    assert trace == IN_ORDER


async def test_a_timeout_around_the_container_ends_its_block_and_not_its_teardown() -> None:
    """C-408: `move_on_after` around `async with Container()`."""
    trace: list[str] = []
    begun = anyio.current_time()
    with anyio.move_on_after(5) as scope:
        async with Container() as root:
            mount_tree(root, trace)
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert trace == IN_ORDER
    assert anyio.current_time() - begun == 8


async def test_a_failing_sibling_of_the_host_cancels_the_block_only() -> None:
    """C-251, C-408: a task group around the container that is cancelled."""
    trace: list[str] = []

    ready = anyio.Event()

    async def fail() -> NoReturn:
        await ready.wait()
        raise ValueError("sibling")

    async def block(root: Container) -> None:
        mount_tree(root, trace)
        await root.settle()
        ready.set()
        await anyio.sleep_forever()

    async def host() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            await run(block)

    with pytest.raises(ExceptionGroup) as raised:
        await host()
    assert [str(error) for error in raised.value.exceptions] == ["sibling"]
    assert trace == IN_ORDER


async def test_host_cancellation_is_never_seen_by_plugin_code() -> None:
    """C-409: not by a body, an undo or a spawned task, at any await."""
    trace: list[str] = []
    loading = anyio.Event()

    async def note(what: str) -> None:
        for _ in range(3):
            await checkpoint()
        await anyio.sleep(1)
        trace.append(what)

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        async def undo() -> None:
            await note("undo")

        async def task() -> None:
            await note("task")

        ctx.spawn(task)
        ctx.effect(lambda: undo)
        loading.set()
        await note("load")
        yield
        await note("teardown")

    with anyio.CancelScope() as scope:
        async with Container() as root:
            root.plugin(body)
            await loading.wait()
            scope.cancel()
            await checkpoint()
    assert trace[-2:] == ["undo", "teardown"]
    assert set(trace[:2]) == {"load", "task"}


async def test_an_exit_has_no_more_than_its_deadline() -> None:
    """C-251: what is not undone after `close_deadline` is cancelled and named."""
    trace: list[str] = []

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        yield
        try:
            await anyio.sleep_forever()
        finally:
            trace.append("cancelled")

    begun = anyio.current_time()
    with pytest.raises(ExceptionGroup, match="closing the container") as raised:
        await run(lambda root: root.plugin(body).ready(), grace=100, close_deadline=7)
    assert anyio.current_time() - begun == 7
    assert trace == ["cancelled"]
    assert [type(error) for error in raised.value.exceptions] == [TeardownTimeoutError]
    assert str(raised.value.exceptions[0]) == (
        'the teardown of root (held up by plugin "body") did not finish in 7 s and was cancelled'
    )


async def test_an_exception_of_the_block_leaves_unwrapped_with_notes() -> None:
    """C-252: teardown failures are notes on it, and are logged."""
    error = KeyError("mine")

    def fail() -> None:
        raise ValueError("undo")

    async def block(root: Container) -> None:
        root.effect(lambda: fail)
        raise error

    with pytest.raises(KeyError) as raised:
        await run(block)
    assert raised.value is error
    assert error.__notes__ == ["closing the container failed too: ValueError('undo')"]


async def test_failures_of_the_teardown_are_raised_as_one_group() -> None:
    """C-175, C-252: of every fiber, flat, without an exception of the block."""

    def failing(name: str) -> Callable[[Context], None]:
        def fail() -> None:
            raise ValueError(name)

        def body(ctx: Context) -> None:
            ctx.effect(lambda: fail)
            if name == "parent":
                ctx.plugin(failing("child"))

        return body

    async def block(root: Container) -> None:
        root.plugin(failing("parent"))
        root.plugin(failing("consumer"), inject=[TOOL])
        root.plugin(provider)
        await root.settle()

    with pytest.raises(ExceptionGroup, match="closing the container") as raised:
        await run(block)
    assert sorted(str(error) for error in raised.value.exceptions) == [
        "child",
        "consumer",
        "parent",
    ]


async def test_a_failure_of_a_fiber_drained_by_the_exit_is_part_of_the_group() -> None:
    """C-175: also when it came down before it was its turn, as a consumer."""

    def fail() -> None:
        raise ValueError("consumer")

    def consumer(ctx: Context) -> None:
        ctx.effect(lambda: fail)

    def group(ctx: Context) -> None:
        ctx.plugin(consumer, inject=[TOOL])

        async def slow() -> None:
            await anyio.sleep(1)

        ctx.effect(lambda: slow)

    async def block(root: Container) -> None:
        root.plugin(provider)
        root.plugin(group)
        await root.settle()

    with pytest.raises(ExceptionGroup) as raised:
        await run(block)
    assert [str(error) for error in raised.value.exceptions] == ["consumer"]


def provider(ctx: Context) -> None:
    ctx.provide(TOOL, 1)


class Stop(BaseException):
    """Stands for `KeyboardInterrupt`, and may cross an event loop of a test."""


Raiser = Callable[[Container, BaseException], object]


def from_plain_body(root: Container, error: BaseException) -> object:
    def body(ctx: Context) -> None:
        raise error

    return root.plugin(body)


def from_async_body(root: Container, error: BaseException) -> object:
    async def body(ctx: Context) -> None:
        await checkpoint()
        raise error

    return root.plugin(body)


def from_task(root: Container, error: BaseException) -> object:
    async def task() -> None:
        raise error

    return root.spawn(task)


def from_async_listener(root: Container, error: BaseException) -> object:
    async def listener(text: str) -> None:
        raise error

    root.on(PING, listener)
    return root.emit(PING, "now")


def from_status_listener(root: Container, error: BaseException) -> object:
    def listener(change: object) -> None:
        raise error

    root.once("internal/status", listener)
    return root.plugin(lambda ctx: None, name="any")


def from_async_setup(root: Container, error: BaseException) -> object:
    async def setup() -> None:
        raise error

    return root.effect(setup)


@pytest.mark.parametrize(
    "raiser",
    [
        from_plain_body,
        from_async_body,
        from_task,
        from_async_listener,
        from_status_listener,
        from_async_setup,
    ],
)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Stop])
async def test_an_exit_request_of_plugin_code_ends_the_container_in_order(
    raiser: Raiser, kind: type[BaseException]
) -> None:
    """C-253: not contained; the exit is in order; that very exception is raised, ungrouped."""
    trace: list[str] = []
    error = kind("enough")

    async def block(root: Container) -> None:
        mount_tree(root, trace)
        await root.settle()
        raiser(root, error)
        await anyio.sleep_forever()

    with pytest.raises(kind) as raised:
        await run(block)
    assert raised.value is error
    assert trace == IN_ORDER


async def test_an_exit_request_out_of_a_group_of_a_task_is_raised_ungrouped() -> None:
    """C-253: the very exception, whatever groups it came through."""
    error = Stop("enough")

    async def fail() -> None:
        raise error

    async def task() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)

    async def block(root: Container) -> None:
        root.spawn(task)
        await anyio.sleep_forever()

    with pytest.raises(Stop) as raised:
        await run(block)
    assert raised.value is error


async def test_an_exit_request_of_an_undo_ends_the_container_in_order() -> None:
    """C-253: the other undos still run."""
    trace: list[str] = []

    def stop() -> None:
        raise SystemExit(3)

    def body(ctx: Context) -> None:
        ctx.effect(lambda: lambda: trace.append("older"))
        ctx.effect(lambda: stop)

    async def block(root: Container) -> None:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.dispose()
        await anyio.sleep_forever()

    with pytest.raises(SystemExit) as raised:
        await run(block)
    assert raised.value.code == 3
    assert trace == ["older"]


async def test_a_cancellation_by_asyncio_itself_keeps_the_order(anyio_backend_name: str) -> None:
    """C-251: as Ctrl-C does it, and again while the teardown runs."""
    if anyio_backend_name != "asyncio":
        pytest.skip("trio raises `KeyboardInterrupt` in the block instead")
    trace: list[str] = []
    loaded = asyncio.Event()

    async def block(root: Container) -> None:
        mount_tree(root, trace)
        await root.settle()
        loaded.set()
        await anyio.sleep_forever()

    host = asyncio.get_running_loop().create_task(run(block))
    await loaded.wait()
    host.cancel()
    await anyio.sleep(0.5)
    host.cancel()
    with pytest.raises(asyncio.CancelledError):
        await host
    assert trace == IN_ORDER


async def test_a_keyboard_interrupt_of_the_block_leaves_it_as_it_is() -> None:
    """C-251, C-252: as trio does it for Ctrl-C."""
    trace: list[str] = []
    error = KeyboardInterrupt()

    async def block(root: Container) -> None:
        mount_tree(root, trace)
        await root.settle()
        raise error

    with pytest.raises(KeyboardInterrupt) as raised:
        await run(block)
    assert raised.value is error
    assert trace == IN_ORDER


async def test_plugins_mounted_before_the_block_wait_for_it() -> None:
    """C-241: and effects, listeners and tasks too."""
    trace: list[str] = []

    async def task() -> None:
        trace.append("task")

    container = Container()
    fiber = container.plugin(lambda ctx: trace.append("body"), name="early")
    spawned = container.spawn(task)
    assert (fiber.state, trace) == (FiberState.PENDING, [])
    async with container:
        await fiber.ready()
        await spawned.join()
    assert sorted(trace) == ["body", "task"]


async def test_a_container_that_was_never_closed_warns() -> None:
    """C-251: a warning only, never a cleanup."""
    container = Container()
    await container.__aenter__()
    message = f"{container!r} was never closed"
    with pytest.warns(ResourceWarning) as warned:
        container.__del__()
    assert [str(one.message) for one in warned] == [message]
    await container.__aexit__(None, None, None)
    container.__del__()


async def build(trace: list[str]) -> Container:
    """Builds a container in a thread, where no event loop runs."""

    async def task() -> None:
        trace.append("task")

    def construct() -> Container:
        container = Container()
        container.plugin(lambda ctx: trace.append("body"), name="early")
        container.plugin(lambda ctx: trace.append("never"), name="waits", inject=[TOOL])
        container.spawn(task)
        return container

    return await anyio.to_thread.run_sync(construct)


async def test_a_container_can_be_built_where_no_event_loop_runs() -> None:
    """C-241: it then belongs to the loop in which it is entered."""
    trace: list[str] = []
    async with await build(trace) as root:
        await root.settle()
        await anyio.sleep(1)
        assert sorted(trace) == ["body", "task"]
        assert root.explain(root.fibers()[2]).seconds == 1


async def test_leaving_while_a_transition_is_in_flight_waits_for_it() -> None:
    """C-409: a load that runs when the block ends lands and is undone."""
    trace: list[str] = []

    async def body(ctx: Context) -> None:
        ctx.effect(lambda: lambda: trace.append("undone"))
        await anyio.sleep(2)
        trace.append("landed")

    async with Container() as root:
        fiber = root.plugin(body)
        while fiber.state is not FiberState.LOADING:
            await checkpoint()
    assert trace == ["landed", "undone"]
