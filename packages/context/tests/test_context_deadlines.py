"""Time limits: loads that are no longer wanted, teardowns that hang, threads, slow loads."""

import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import (
    ContainedError,
    Container,
    Context,
    FiberState,
    Plugin,
    ServiceKey,
    TeardownTimeoutError,
    plugin,
)

PENDING, LOADING, ACTIVE, UNLOADING, FAILED, DISPOSED = FiberState
TOOL: ServiceKey[object] = ServiceKey("tool")
GRACE = 3


class Clock:
    """Notes what happened and how long after its start."""

    def __init__(self) -> None:
        self.start = anyio.current_time()
        self.trace: list[str] = []

    def note(self, what: str) -> None:
        self.trace.append(f"{anyio.current_time() - self.start:g} s: {what}")


async def until(condition: Callable[[], bool]) -> None:
    """Lets others run, without time passing, until it holds."""
    for _ in range(1000):
        if condition():
            return
        await checkpoint()
    raise AssertionError("it never came true")


def slow_body(clock: Clock, seconds: float, *, cancel_load: bool = False) -> Plugin:
    """A consumer of TOOL whose load takes time, and which notes its cancellation."""

    @plugin(name="slow", inject=[TOOL], cancel_load=cancel_load)
    async def body(ctx: Context) -> None:
        ctx.effect(lambda: lambda: clock.note("effect undone"))
        try:
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            clock.note("load cancelled")
            raise
        clock.note("landed")

    return body


@pytest.mark.parametrize(("cancel_load", "after"), [(False, GRACE), (True, 0)])
async def test_a_diverted_load_is_cancelled_and_is_no_failure(
    cancel_load: bool, after: float, caplog: pytest.LogCaptureFixture
) -> None:
    """C-249: after `grace`, or at once with `cancel_load`; undone and not FAILED."""
    clock = Clock()
    async with Container(grace=GRACE) as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(slow_body(clock, 100, cancel_load=cancel_load))
        await until(lambda: fiber.state is LOADING)
        provision.close()
        await fiber.settled()
        assert (fiber.state, fiber.error) == (PENDING, None)
    assert clock.trace == [f"{after:g} s: load cancelled", f"{after:g} s: effect undone"]
    assert not caplog.records


async def test_a_cancelled_load_can_run_again() -> None:
    """C-249: the next load has all its time."""
    clock = Clock()
    async with Container(grace=GRACE) as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(slow_body(clock, 10))
        await until(lambda: fiber.state is LOADING)
        provision.replace(2)
        await fiber.ready()
    assert [line for line in clock.trace if "landed" in line] == ["13 s: landed"]


@pytest.mark.parametrize("holds", ["group", "scope", "timeout", "async with"])
@pytest.mark.parametrize("when", ["load", "teardown"])
async def test_a_body_that_holds_scopes_open_is_cancelled_without_nesting_errors(
    holds: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C-404: in a diverted load and in its teardown."""
    clock = Clock()

    async def wait(current: str) -> None:
        if current == when:
            await anyio.sleep_forever()

    @plugin(name="holder", inject=[TOOL])
    async def body(ctx: Context) -> AsyncIterator[None]:
        if holds == "group":
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                await wait("load")
                yield
                await wait("teardown")
        elif holds == "scope":
            with anyio.CancelScope(shield=False):
                await wait("load")
                yield
                await wait("teardown")
        elif holds == "timeout":
            with anyio.move_on_after(1000), anyio.CancelScope():
                await wait("load")
                yield
                await wait("teardown")
        else:
            async with anyio.create_task_group(), anyio.create_task_group() as inner:
                inner.start_soon(anyio.sleep_forever)
                await wait("load")
                yield
                await wait("teardown")

    async with Container(grace=GRACE) as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(body)
        await until(lambda: fiber.state is (ACTIVE if when == "teardown" else LOADING))
        provision.close()
        await fiber.settled()
        assert (fiber.state, fiber.error) == (PENDING, None)
        assert anyio.current_time() - clock.start == GRACE
        root.provide(TOOL, 2)
        await until(lambda: fiber.state is (ACTIVE if when == "teardown" else LOADING))
        fiber.retire()
        await fiber.settled()
    late = [record.getMessage() for record in caplog.records]
    expected = (
        'teardown of plugin "holder" failed: TeardownTimeoutError: body "holder" of '
        'plugin "holder" did not finish in 3 s and was cancelled'
    )
    assert late[:1] == ([expected] if when == "teardown" else [])


async def test_each_undo_has_its_own_time_after_the_body_ran_out_of_it() -> None:
    """C-405: after a cancelled body, each remaining async undo still has its own `grace`."""
    clock = Clock()

    def undo(name: str, seconds: float) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            try:
                await anyio.sleep(seconds)
                clock.note(f"{name} undone")
            except anyio.get_cancelled_exc_class():
                clock.note(f"{name} cancelled")
                raise

        return run

    @plugin(inject=[TOOL])
    async def body(ctx: Context) -> None:
        ctx.effect(lambda: undo("oldest", 2))
        ctx.effect(lambda: undo("hangs", 100))
        ctx.effect(lambda: undo("newest", 2))
        await anyio.sleep_forever()

    async with Container(grace=GRACE) as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(body)
        await until(lambda: fiber.state is LOADING)
        provision.close()
        await fiber.settled()
    assert clock.trace == ["5 s: newest undone", "8 s: hangs cancelled", "10 s: oldest undone"]


async def test_a_generator_body_that_ran_out_of_time_is_followed_by_nothing() -> None:
    """C-405: its own teardown code does not run again, the effects it made are undone."""
    clock = Clock()

    @plugin(inject=[TOOL])
    async def body(ctx: Context) -> AsyncIterator[None]:
        async def undo() -> None:
            await anyio.sleep(2)
            clock.note("effect undone")

        ctx.effect(lambda: undo)
        try:
            await anyio.sleep_forever()
            yield
        finally:
            clock.note("closed")

    async with Container(grace=GRACE) as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(body)
        await until(lambda: fiber.state is LOADING)
        provision.close()
        await fiber.settled()
    assert clock.trace == ["3 s: closed", "5 s: effect undone"]


async def test_a_load_that_lands_in_time_is_undone_with_full_time_limits() -> None:
    """C-406: the deadline that was set for the landing is taken back."""
    clock = Clock()

    @plugin(inject=[TOOL])
    async def body(ctx: Context) -> AsyncIterator[None]:
        await anyio.sleep(2)
        yield
        await anyio.sleep(2.5)
        clock.note("torn down")

    async with Container(grace=GRACE) as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(body)
        await until(lambda: fiber.state is LOADING)
        provision.close()
        await fiber.settled()
        assert fiber.state is PENDING
    assert clock.trace == ["4.5 s: torn down"]


async def test_a_dependency_that_is_back_in_time_takes_the_deadline_back() -> None:
    """C-406: a load that is wanted again has all the time it needs."""
    clock = Clock()

    @plugin(optional=[TOOL])
    async def body(ctx: Context) -> None:
        await anyio.sleep(10)
        clock.note("landed")

    async with Container(grace=GRACE) as root:
        fiber = root.plugin(body)
        await until(lambda: fiber.state is LOADING)
        provision = root.provide(TOOL, 1)
        await anyio.sleep(1)
        provision.close()
        await fiber.ready()
        assert clock.trace == ["10 s: landed"]


@pytest.mark.parametrize("where", ["load", "teardown", "undo", "task"])
async def test_a_thread_that_outlives_its_time_is_abandoned(where: str) -> None:
    """C-407: reported with its label; unload and exit end in time."""
    release, running = threading.Event(), anyio.Event()

    async def block() -> None:
        running.set()
        await anyio.to_thread.run_sync(release.wait, 60, abandon_on_cancel=True)

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        if where == "undo":
            ctx.effect(lambda: block, label="blocking undo")
        if where == "task":
            ctx.spawn(block, name="blocking task")
            await running.wait()
        if where == "load":
            await block()
        yield
        if where == "teardown":
            await block()

    errors: list[str] = []
    async with Container(grace=0.05) as root:
        root.on("internal/error", lambda contained: errors.append(str(contained.error)))
        fiber = root.plugin(body)
        if where == "load":
            await running.wait()
        else:
            await fiber.ready()
        await fiber.dispose()
        assert fiber.state is DISPOSED
    release.set()
    label = {"teardown": 'body "body"', "undo": "blocking undo"}.get(where)
    late = f'{label} of plugin "body" did not finish in 0.05 s and was cancelled'
    assert errors == ([late] if label else [])


async def test_a_task_that_does_not_end_is_reported_by_label() -> None:
    """C-250, C-407: a task that resists its cancellation is waited for no longer than `grace`."""
    started, gate = anyio.Event(), anyio.Event()

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            started.set()
            await gate.wait()

    def body(ctx: Context) -> None:
        ctx.spawn(stubborn)

    async with Container(grace=GRACE) as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await started.wait()
        begun = anyio.current_time()
        with pytest.raises(ExceptionGroup) as raised:
            await fiber.dispose(check=True)
        assert anyio.current_time() - begun <= 2 * GRACE
        gate.set()
    (late,) = raised.value.exceptions
    assert isinstance(late, TeardownTimeoutError)
    assert str(late) == ('task "stubborn" of plugin "body" did not finish in 3 s and was cancelled')


async def test_an_unload_ends_its_time_only_when_it_is_its_turn() -> None:
    """C-250: the time of an undo does not run while its consumers are drained."""
    clock = Clock()

    @plugin
    async def provider(ctx: Context) -> AsyncIterator[None]:
        ctx.provide(TOOL, 1)
        yield
        await anyio.sleep(2)
        clock.note("provider torn down")

    @plugin(inject=[TOOL])
    async def consumer(ctx: Context) -> AsyncIterator[None]:
        yield
        await anyio.sleep(2.5)
        clock.note("consumer torn down")

    async with Container(grace=GRACE) as root:
        fiber = root.plugin(provider)
        await root.plugin(consumer).ready()
        await fiber.dispose(check=True)
    assert clock.trace == ["2.5 s: consumer torn down", "4.5 s: provider torn down"]


async def test_a_slow_load_is_logged_with_what_it_waits_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-256: after 5 s, then every 30 s."""

    async def body(ctx: Context) -> None:
        child = ctx.plugin(lambda ctx: None, name="child", inject=[TOOL])
        await child.ready()

    async with Container() as root:
        fiber = root.plugin(body, entry="harness.yml#body")
        await anyio.sleep(40)
        root.provide(TOOL, 1)
        await fiber.ready()
    waiting = (
        'plugin "body" (harness.yml#body) is still loading after {} s: it waits for '
        'plugin "child", which is PENDING: waiting for tool, provided by no one'
    )
    assert [record.getMessage() for record in caplog.records] == [
        waiting.format(5),
        waiting.format(35),
    ]


async def test_a_slow_load_that_waits_for_no_plugin_names_its_body(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-256: the body itself takes its time."""

    async def body(ctx: Context) -> None:
        await anyio.sleep(6)

    async with Container() as root:
        await root.plugin(body).ready()
        await anyio.sleep(60)
    assert [record.getMessage() for record in caplog.records] == [
        'plugin "body" is still loading after 5 s: its body has not returned'
    ]


async def test_a_dropped_transition_leaves_no_coroutine_behind() -> None:
    """C-417: nothing awaitable exists before the one that awaits it calls it."""
    ran: list[str] = []

    async def never() -> None:
        ran.append("never")

    @plugin
    async def body(ctx: Context) -> None:
        ran.append("body")

    container = Container()
    container.plugin(body)
    container.spawn(never)
    container.effect(never)
    del container
    gc.collect()  # a coroutine that was never awaited would warn here, and warnings are errors
    assert ran == []


async def test_no_error_of_a_teardown_is_reported_twice() -> None:
    """C-250: once in `internal/error`."""
    errors: list[ContainedError] = []

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        yield
        await anyio.sleep_forever()

    async with Container(grace=GRACE) as root:
        root.on("internal/error", errors.append)
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.restart()
        assert [error.label for error in errors] == ["teardown"]
        assert fiber.state is ACTIVE
        with pytest.raises(ExceptionGroup):
            await fiber.dispose(check=True)
        assert len(errors) == 1
