"""Effects with a task of their own: async setups, async managers, spawned tasks."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import (
    AsyncEffectError,
    ContainedError,
    Container,
    Context,
    Effect,
    FiberState,
    InactiveFiberError,
    InvalidEffectError,
    PluginFailedError,
    TeardownTimeoutError,
)


class Steps:
    """An async generator effect of three steps, each of which can be held up."""

    def __init__(self) -> None:
        self.trace: list[str] = []
        self.gates = [anyio.Event() for _ in range(3)]
        self.begun = [anyio.Event() for _ in range(3)]

    async def body(self) -> AsyncIterator[Callable[[], object]]:
        for number, gate in enumerate(self.gates):
            self.begun[number].set()
            await gate.wait()
            self.trace.append(f"step {number}")
            yield self.undo(number)

    def undo(self, number: int) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await checkpoint()
            self.trace.append(f"undo {number}")

        return run

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self.gates[number].set()


async def undo(effect: Effect, how: str) -> None:
    """Undoes an effect by its handle, or by the disposal of its fiber."""
    if how == "handle":
        await effect.aclose()
    else:
        fiber: Any = effect.owner
        await fiber.dispose(check=True)


async def plugged(root: Container) -> Context:
    fiber = root.plugin(lambda ctx: None, name="owner")
    await fiber.ready()
    context: Context = fiber.ctx
    return context


BY = pytest.mark.parametrize("how", ["handle", "fiber"])


async def reported(root: Container) -> list[str]:
    errors: list[str] = []

    def note(contained: ContainedError) -> None:
        errors.append(f"{contained.label}: {contained.error}")

    root.on("internal/error", note)
    return errors


async def test_awaiting_an_effect_returns_the_handle_after_its_setup() -> None:
    """C-010, C-015: `await effect` waits for the setup; the undo runs after it."""
    trace: list[str] = []

    async def setup() -> Callable[[], None]:
        await checkpoint()
        trace.append("set up")
        return lambda: trace.append("undone")

    async with Container() as root:
        effect = root.effect(setup)
        assert trace == []
        assert await effect is effect
        assert trace == ["set up"]
        await effect.aclose()
        assert effect.done
    assert trace == ["set up", "undone"]


async def test_awaiting_a_plain_effect_returns_it_too() -> None:
    """C-015: any effect can be awaited."""
    async with Container() as root:
        effect = root.effect(lambda: None)
        assert await effect is effect


@BY
async def test_a_setup_that_is_disposed_early_lands_and_is_undone(how: str) -> None:
    """C-011: the setup lands, then its undo runs."""
    trace: list[str] = []
    begun, gate = anyio.Event(), anyio.Event()

    async def setup() -> Callable[[], None]:
        begun.set()
        await gate.wait()
        trace.append("set up")
        return lambda: trace.append("undone")

    async with Container() as root, anyio.create_task_group() as group:
        effect = (await plugged(root)).effect(setup)
        await begun.wait()
        group.start_soon(undo, effect, how)
        await anyio.sleep(1)
        assert not effect.done
        gate.set()
    assert trace == ["set up", "undone"]


async def test_close_refuses_a_setup_that_still_runs() -> None:
    """C-401: a running setup is an async part."""
    gate = anyio.Event()
    async with Container() as root:
        effect = root.effect(gate.wait, label="slow")
        with pytest.raises(AsyncEffectError, match=r"slow of root has an async part \(slow\)"):
            effect.close()
        gate.set()


async def test_the_steps_of_an_async_generator_are_undone_in_reverse() -> None:
    """C-012: disposal undoes all steps, newest first."""
    steps = Steps()
    steps.open(0, 1, 2)
    async with Container() as root:
        await root.effect(steps.body)
    assert steps.trace == ["step 0", "step 1", "step 2", "undo 2", "undo 1", "undo 0"]


@BY
@pytest.mark.parametrize(
    ("during", "expected"),
    [(0, ["step 0", "undo 0"]), (1, ["step 0", "step 1", "undo 1", "undo 0"])],
)
async def test_the_step_in_flight_lands_and_later_ones_never_run(
    during: int, expected: list[str], how: str
) -> None:
    """C-013, C-014: disposed during a step: it lands, all so far is undone, no more."""
    steps = Steps()
    steps.open(*range(during))
    async with Container() as root, anyio.create_task_group() as group:
        effect = (await plugged(root)).effect(steps.body)
        await steps.begun[during].wait()
        group.start_soon(undo, effect, how)
        await anyio.sleep(1)
        steps.open(0, 1, 2)
    assert steps.trace == expected


async def test_awaiting_raises_the_error_of_a_setup(caplog: pytest.LogCaptureFixture) -> None:
    """C-018: raised to whoever awaits, and then not logged."""

    async def setup() -> None:
        raise ValueError("no")

    async with Container() as root:
        errors = await reported(root)
        with pytest.raises(ValueError, match="no") as raised:
            await root.effect(setup, label="mine")
        assert raised.value.__notes__ == ["in the setup of mine of root"]
        assert not [effect for effect in root.fiber.effects.values() if effect.label == "mine"]
        assert errors == []
    assert not caplog.records


async def test_an_error_of_a_setup_that_nobody_awaits_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-018, C-216: once in the log, once in `internal/error`."""

    async def setup() -> None:
        raise ValueError("no")

    async with Container() as root:
        errors = await reported(root)
        effect = root.effect(setup, label="mine")
        while not effect.done:
            await checkpoint()
        assert errors == ["mine: no"]
    assert [record.getMessage() for record in caplog.records] == [
        "mine of root failed: ValueError: no"
    ]


async def test_an_async_generator_that_raises_undoes_its_earlier_steps() -> None:
    """C-019: awaiting raises the error; earlier steps are undone."""
    trace: list[str] = []

    async def steps() -> AsyncIterator[Callable[[], object]]:
        yield lambda: trace.append("undone")
        raise ValueError("second")

    async with Container() as root:
        with pytest.raises(ValueError, match="second"):
            await root.effect(steps)
        assert trace == ["undone"]


async def test_steps_that_were_collected_are_undone_when_the_setup_runs_out_of_time() -> None:
    """C-019, C-250: a setup that does not land is cancelled; what it had collected is undone."""
    steps = Steps()
    steps.open(0)
    async with Container(grace=1) as root:
        effect = root.effect(steps.body, label="mine")
        await steps.begun[1].wait()
        with pytest.raises(ExceptionGroup) as raised:
            await effect.aclose()
        assert steps.trace == ["step 0", "undo 0"]
    (late,) = raised.value.exceptions
    assert isinstance(late, TeardownTimeoutError)
    assert str(late) == "mine of root did not finish in 1 s and was cancelled"


async def test_a_restart_waits_for_a_failed_async_setup() -> None:
    """C-173: the undo of a failed setup is part of the unload."""
    trace: list[str] = []
    gate = anyio.Event()

    async def setup() -> None:
        await gate.wait()
        trace.append("fails")
        raise ValueError("no")

    def body(ctx: Context) -> None:
        trace.append("load")
        ctx.effect(setup)

    async with Container() as root, anyio.create_task_group() as group:
        fiber = root.plugin(body)
        await fiber.ready()
        group.start_soon(fiber.restart)
        await checkpoint()
        gate.set()
    assert trace[:3] == ["load", "fails", "load"]


async def test_an_async_effect_can_suspend_and_go_on_at_its_undo() -> None:
    """C-012: the code after the one bare `yield` runs last, in the same task."""
    trace: list[object] = []

    async def steps() -> AsyncIterator[Any]:
        task = anyio.get_current_task().id
        yield lambda: trace.append("step undone")
        yield
        trace.append(anyio.get_current_task().id == task)

    async with Container() as root:
        await root.effect(steps)
    assert trace == ["step undone", True]


class Manager:
    """An async manager that notes who enters and leaves it."""

    def __init__(self, trace: list[object]) -> None:
        self.trace = trace

    async def __aenter__(self) -> str:
        self.task = anyio.get_current_task().id
        self.trace.append("enter")
        await checkpoint()
        return "value"

    async def __aexit__(self, *error: object) -> None:
        await checkpoint()
        self.trace.append(("exit", anyio.get_current_task().id == self.task))


async def test_an_async_manager_is_left_in_its_own_task_in_lifo_place() -> None:
    """C-234: one task for enter and exit, the value, the LIFO place."""
    trace: list[object] = []

    async def body(ctx: Context) -> None:
        ctx.effect(lambda: lambda: trace.append("older"))
        assert await ctx.enter_async(Manager(trace)) == "value"
        ctx.effect(lambda: lambda: trace.append("newer"))

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.dispose()
        assert trace == ["enter", "newer", ("exit", True), "older"]


@pytest.mark.parametrize("as_function", [False, True])
async def test_an_effect_may_be_an_async_manager(as_function: bool) -> None:
    """C-234: given itself or returned by an async function."""
    trace: list[object] = []

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        trace.append("in")
        yield
        trace.append("out")

    async def give() -> AbstractAsyncContextManager[None]:
        return manager()

    async with Container() as root:
        await root.effect(give if as_function else manager())
        assert trace == ["in"]
    assert trace == ["in", "out"]


async def test_a_manager_that_fails_while_open_fails_the_fiber_only() -> None:
    """C-235: FAILED with that error; the rest goes on."""
    gate = anyio.Event()

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            yield

    async def fail() -> None:
        await gate.wait()
        raise ValueError("broken")

    async def body(ctx: Context) -> None:
        await ctx.enter_async(manager())

    def other(ctx: Context) -> None: ...

    async with Container() as root:
        fiber, sibling = root.plugin(body), root.plugin(other)
        await fiber.ready()
        gate.set()
        await fiber.changed()
        await fiber.settled()
        assert (fiber.state, sibling.state) == (FiberState.FAILED, FiberState.ACTIVE)
        with pytest.raises(PluginFailedError) as raised:
            await fiber.ready()
    assert str(raised.value).startswith('plugin "body" failed by its manager "manager": ')
    assert isinstance(raised.value.__cause__, ExceptionGroup)
    assert [str(one) for one in raised.value.__cause__.exceptions] == ["broken"]


async def test_a_manager_that_does_not_open_raises_and_leaves_nothing() -> None:
    """C-234: the error of `__aenter__` is raised to the caller."""

    @asynccontextmanager
    async def manager() -> AsyncIterator[None]:
        raise OSError("locked")
        yield

    async with Container() as root:
        with pytest.raises(OSError, match="locked"):
            await root.enter_async(manager())
        assert not root.fiber.effects


async def test_the_wrong_kind_of_manager_names_the_other_method() -> None:
    """C-402: `enter` and `enter_async` refuse each other's managers."""

    @contextmanager
    def plain() -> Iterator[None]:
        yield

    @asynccontextmanager
    async def asynchronous() -> AsyncIterator[None]:
        yield

    one, other = plain(), asynchronous()
    async with Container() as root:
        with pytest.raises(InvalidEffectError) as raised:
            root.enter(other)  # type: ignore[arg-type]  # the mistake under test
        assert str(raised.value) == (
            f"{other!r} is no plain context manager; for an async one use "
            "`await ctx.enter_async(manager)`"
        )
        with pytest.raises(InvalidEffectError) as raised:
            await root.enter_async(one)  # type: ignore[arg-type]  # the mistake under test
        assert str(raised.value) == (
            f"{one!r} is no async context manager; for a plain one use `ctx.enter(manager)`"
        )


async def test_a_plain_effect_refuses_an_async_manager_by_name() -> None:
    """C-402: a plain body cannot enter an async manager."""
    async with Container() as root:
        with pytest.raises(InvalidEffectError, match=r"use `await ctx\.enter_async\(manager\)`"):
            root.effect(lambda: Manager([]), label="mine")


async def test_a_crash_of_a_task_fails_its_fiber_only() -> None:
    """C-236: FAILED, with a note naming the task; others are untouched."""
    gate = anyio.Event()

    async def poll() -> None:
        await gate.wait()
        raise ValueError("lost")

    def body(ctx: Context) -> None:
        ctx.spawn(poll)

    def other(ctx: Context) -> None: ...

    async with Container() as root:
        fiber, sibling = root.plugin(body), root.plugin(other)
        await fiber.ready()
        gate.set()
        await fiber.changed()
        await fiber.settled()
        assert (fiber.state, sibling.state) == (FiberState.FAILED, FiberState.ACTIVE)
        with pytest.raises(PluginFailedError) as raised:
            await fiber.ready()
    assert str(raised.value) == 'plugin "body" failed by its task "poll": ValueError: lost'
    assert raised.value.__cause__ is not None
    assert raised.value.__cause__.__notes__ == ['in task "poll" of plugin "body"']


async def test_a_crash_of_a_task_of_root_is_contained() -> None:
    """C-236: root cannot fail."""

    async def poll() -> None:
        raise ValueError("lost")

    async with Container() as root:
        errors = await reported(root)
        await root.spawn(poll).join()
        assert errors == ['task "poll": lost']
        assert root.fiber.state is FiberState.ACTIVE


async def test_a_task_is_cancelled_and_joined_in_its_lifo_place() -> None:
    """C-237: before older effects are undone."""
    trace: list[str] = []
    started = anyio.Event()

    async def poll() -> None:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await checkpoint()
            trace.append("task ended")

    def body(ctx: Context) -> None:
        ctx.effect(lambda: lambda: trace.append("older"))
        ctx.spawn(poll)
        ctx.effect(lambda: lambda: trace.append("newer"))

    async with Container() as root:
        fiber = root.plugin(body)
        await started.wait()
        await fiber.dispose()
        assert trace == ["newer", "task ended", "older"]


async def test_a_task_that_fails_while_it_is_cancelled_is_a_failure_of_the_teardown() -> None:
    """C-175, C-237: one of those that a checked disposal raises."""
    started = anyio.Event()

    async def poll() -> None:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            raise ValueError("clean up")

    async with Container() as root:
        ctx = await plugged(root)
        ctx.spawn(poll)
        await started.wait()
        with pytest.raises(ExceptionGroup) as raised:
            await ctx.fiber.dispose(check=True)
    (error,) = raised.value.exceptions
    assert str(error) == "clean up"
    assert error.__notes__ == ['in task "poll" of plugin "owner"']


async def test_a_task_that_ended_leaves_the_stack() -> None:
    """C-237: only what still runs has to be undone."""

    async def short() -> None: ...

    async with Container() as root:
        task = root.spawn(short, name="short")
        assert task.label == 'task "short"'
        await task.join()
        assert task.done
        assert not root.fiber.effects
        task.close()


async def test_a_task_can_close_itself() -> None:
    """C-240: `aclose()` of the own task asks it to end and does not wait for it."""
    trace: list[str] = []

    async def poll(ctx: Context) -> None:
        (handle,) = ctx.fiber.effects.values()
        await handle.aclose()
        trace.append("asked")
        await checkpoint()
        trace.append("unreachable")

    async with Container() as root:
        await root.spawn(poll, root).join()
    assert trace == ["asked"]


async def test_an_undo_that_hangs_is_cancelled_by_label_and_later_ones_run() -> None:
    """C-250: cancelled after `grace`, reported with its label; the next undo runs."""
    trace: list[str] = []

    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            trace.append(f"cancelled after {anyio.current_time() - begun:g} s")

    def body(ctx: Context) -> None:
        ctx.effect(lambda: lambda: trace.append("older"))
        ctx.effect(lambda: hang, label="stuck")

    async with Container(grace=3) as root:
        fiber = root.plugin(body)
        await fiber.ready()
        begun = anyio.current_time()
        with pytest.raises(ExceptionGroup) as raised:
            await fiber.dispose(check=True)
    assert trace == ["cancelled after 3 s", "older"]
    assert [str(error) for error in raised.value.exceptions] == [
        'stuck of plugin "body" did not finish in 3 s and was cancelled'
    ]


async def test_what_a_setup_registers_after_its_fiber_began_to_unload_is_refused() -> None:
    """C-156, C-011: the setup is told, and what it had so far is undone."""
    trace: list[str] = []
    begun, gate = anyio.Event(), anyio.Event()

    async with Container() as root:
        ctx = await plugged(root)

        async def setup() -> AsyncIterator[object]:
            yield lambda: trace.append("undone")
            begun.set()
            await gate.wait()
            with pytest.raises(InactiveFiberError, match='plugin "owner" is UNLOADING'):
                ctx.on("internal/error", print)
            trace.append("refused")
            yield None

        ctx.effect(setup)
        await begun.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(ctx.fiber.dispose)
            await anyio.sleep(1)
            gate.set()
    assert trace == ["refused", "undone"]


async def test_what_an_async_effect_collected_is_part_of_it() -> None:
    """C-009, C-218: listed as its children; a listener among them is deaf from the unload on."""
    heard: list[object] = []
    gate, undoing = anyio.Event(), anyio.Event()

    async with Container() as root:
        ctx = await plugged(root)

        async def steps() -> AsyncIterator[object]:
            yield ctx.on("internal/plugin", heard.append)
            yield ctx.plugin(lambda ctx: None, name="child")

        async def undo() -> None:
            undoing.set()
            await gate.wait()

        effect = await ctx.effect(steps, label="outer")
        assert [child.label for child in effect.children] == [
            'on "internal/plugin"',
            'plugin "child"',
        ]
        ctx.effect(lambda: undo)
        heard.clear()
        ctx.fiber.retire()
        await undoing.wait()
        root.plugin(lambda ctx: None, name="other")
        assert heard == []
        gate.set()
