"""Fibers: states, targets, diversion, update and restart."""

from collections.abc import AsyncIterator, Callable, Iterator

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import (
    Config,
    ConfigError,
    Container,
    Context,
    ContextError,
    Fiber,
    FiberState,
    InactiveFiberError,
    PluginFailedError,
    RestartBudgetError,
    ServiceKey,
    StatusChange,
    WrongThreadError,
    plugin,
)

PENDING, LOADING, ACTIVE, UNLOADING, FAILED, DISPOSED = FiberState
TOOL: ServiceKey[object] = ServiceKey("tool")
OTHER: ServiceKey[object] = ServiceKey("other")


class Settings(Config):
    level: int = 1


def states(root: Container, fiber: Fiber) -> list[FiberState]:
    """Collects the states that a fiber reaches."""
    reached: list[FiberState] = []

    def note(change: StatusChange) -> None:
        if change.fiber is fiber:
            reached.append(change.new)

    root.on("internal/status", note)
    return reached


class Slow:
    """A consumer whose load and undo each wait for a gate."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.load_gate, self.undo_gate = anyio.Event(), anyio.Event()
        self.loading, self.undoing = anyio.Event(), anyio.Event()
        self.plugin = plugin(name="slow", inject=[TOOL])(self.body)

    async def body(self, ctx: Context) -> None:
        self.seen.append(ctx[TOOL])
        ctx.effect(lambda: self.undo)
        self.loading.set()
        await self.load_gate.wait()

    async def undo(self) -> None:
        self.undoing.set()
        await self.undo_gate.wait()


async def test_a_dependency_lost_during_a_load_is_acted_on_when_the_load_ends() -> None:
    """C-027: LOADING until the load ends, UNLOADING; back during the unload: LOADING, ACTIVE."""
    slow = Slow()
    async with Container() as root:
        fiber = root.plugin(slow.plugin)
        reached = states(root, fiber)
        first = root.provide(TOOL, "first")
        await slow.loading.wait()
        first.close()
        await checkpoint()
        assert fiber.state is LOADING
        slow.load_gate.set()
        await slow.undoing.wait()
        assert reached == [LOADING, UNLOADING]
        root.provide(TOOL, "second")
        await checkpoint()
        slow.undo_gate.set()
        await fiber.ready()
        assert reached == [LOADING, UNLOADING, LOADING, ACTIVE]
    assert slow.seen == ["first", "second"]


async def test_a_replaced_object_is_seen_by_one_more_run() -> None:
    """C-028, C-233: withdrawn and provided again during a load: once more, with the new object."""
    slow = Slow()
    slow.undo_gate.set()
    async with Container() as root:
        fiber = root.plugin(slow.plugin)
        provision = root.provide(TOOL, "first")
        await slow.loading.wait()
        provision.replace("second")
        slow.load_gate.set()
        await fiber.ready()
        await root.settle()
    assert slow.seen == ["first", "second"]


async def test_many_flips_during_an_unload_cost_at_most_two_runs() -> None:
    """C-230: a burst of changes costs one extra cycle."""
    slow = Slow()
    slow.load_gate.set()
    async with Container() as root:
        fiber = root.plugin(slow.plugin)
        provision = root.provide(TOOL, 0)
        await fiber.ready()
        provision.close()
        await slow.undoing.wait()
        for number in range(50):
            provision = root.provide(TOOL, number)
            await checkpoint()
            if number < 49:
                provision.close()
        slow.undo_gate.set()
        await fiber.ready()
    assert slow.seen[0] == 0
    assert slow.seen[-1] == 49
    assert len(slow.seen) <= 3


async def test_churn_that_ends_at_the_same_binding_runs_nothing() -> None:
    """C-160: dependencies are compared by binding."""
    loads: list[int] = []

    @plugin(optional=[TOOL, OTHER])
    def body(ctx: Context) -> None:
        loads.append(len(loads))

    async with Container() as root:
        root.provide(TOOL, 1)
        fiber = root.plugin(body)
        await fiber.ready()
        root.provide(OTHER, 2).close()
        await root.settle()
    assert loads == [0]


async def test_a_failing_body_fails_its_fiber_only(caplog: pytest.LogCaptureFixture) -> None:
    """C-030: FAILED, logged once, its listeners gone; another fiber of it is unaffected."""

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None:
        ctx.on("internal/service", lambda change: None)
        if config.level == 2:
            raise ValueError("no")

    async with Container() as root:
        good, bad = root.plugin(body), root.plugin(body, {"level": 2})
        await root.settle()
        assert (good.state, bad.state) == (ACTIVE, FAILED)
        assert len(root.listeners("internal/service")) == 1
        assert not bad.effects
    assert [record.getMessage() for record in caplog.records] == [
        'loading of plugin "body" failed: ValueError: no'
    ]


async def test_a_failed_fiber_is_not_run_again_by_its_dependencies() -> None:
    """C-158: only `update`, `restart` and disposal change it."""
    loads: list[object] = []

    @plugin(inject=[TOOL])
    def body(ctx: Context) -> None:
        loads.append(ctx[TOOL])
        raise ValueError("no")

    async with Container() as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(body)
        await root.settle()
        provision.replace(2)
        await root.settle()
        assert (fiber.state, loads) == (FAILED, [1])


async def test_update_runs_a_failed_fiber_again(caplog: pytest.LogCaptureFixture) -> None:
    """C-159: awaited to the recovery; its failure reaches the caller and is not logged."""

    @plugin(config=Settings)
    async def body(ctx: Context, config: Settings) -> None:
        await checkpoint()
        if config.level < 3:
            raise ValueError(f"level {config.level}")

    async with Container() as root:
        fiber = root.plugin(body)
        with pytest.raises(PluginFailedError) as raised:
            await fiber.ready()
        text = 'plugin "body" failed while loading: ValueError: level'
        assert str(raised.value) == f"{text} 1"
        cause = raised.value.__cause__
        assert (str(cause), getattr(cause, "__notes__", None)) == (
            "level 1",
            ['while loading plugin "body"'],
        )
        with pytest.raises(PluginFailedError, match=f"{text} 2"):
            await fiber.update({"level": 2})
        await fiber.update({"level": 3})
        assert fiber.state is ACTIVE
    assert not caplog.records


async def test_restart_during_a_load_is_applied_afterwards() -> None:
    """C-160: an explicit request is never lost."""
    slow = Slow()
    slow.undo_gate.set()
    async with Container() as root, anyio.create_task_group() as group:
        root.provide(TOOL, 1)
        fiber = root.plugin(slow.plugin)
        await slow.loading.wait()
        group.start_soon(fiber.restart)
        group.start_soon(fiber.restart)
        while fiber.generation < 2:
            await checkpoint()
        slow.load_gate.set()
        await root.settle()
    assert slow.seen == [1, 1]


async def test_the_last_of_several_updates_wins() -> None:
    """C-160: updates during LOADING are applied afterwards, as one."""
    levels: list[int] = []
    gate, loading = anyio.Event(), anyio.Event()

    @plugin(config=Settings)
    async def body(ctx: Context, config: Settings) -> None:
        levels.append(config.level)
        loading.set()
        await gate.wait()

    async with Container() as root, anyio.create_task_group() as group:
        fiber = root.plugin(body)
        await loading.wait()
        for level in (2, 3, 4):
            group.start_soon(fiber.update, {"level": level})
            while fiber.source != {"level": level}:
                await checkpoint()
        gate.set()
    assert levels == [1, 4]


async def test_provider_and_consumer_updated_together_give_one_run() -> None:
    """C-161: one new consumer run, with the new service and the new config."""
    runs: list[object] = []

    @plugin(config=Settings)
    def provider(ctx: Context, config: Settings) -> None:
        ctx.provide(TOOL, config.level)

    @plugin(config=Settings, inject=[TOOL])
    def consumer(ctx: Context, config: Settings) -> None:
        runs.append((ctx[TOOL], config.level))

    for order in (slice(None), slice(None, None, -1)):
        async with Container() as root:
            fibers = [root.plugin(provider), root.plugin(consumer)]
            await root.settle()
            runs.clear()
            async with anyio.create_task_group() as group:
                for fiber in fibers[order]:
                    group.start_soon(fiber.update, {"level": 7})
            assert runs == [(7, 7)]


async def test_the_mount_returns_the_fiber_itself() -> None:
    """C-162, C-241: what the container uses; no code of the plugin runs before it returns."""
    loads: list[Fiber] = []

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None:
        loads.append(ctx.fiber)

    async with Container() as root:
        fiber = root.plugin(body, {"level": 5}, name="mine", entry="harness.yml#mine")
        assert (fiber.state, loads) == (PENDING, [])
        await fiber.ready()
        assert loads[0] is fiber
        assert fiber in root.fibers()
        assert fiber.config == Settings(level=5)
        assert (fiber.source, fiber.name, fiber.entry) == ({"level": 5}, "mine", "harness.yml#mine")
        assert str(fiber) == 'plugin "mine" (harness.yml#mine)'


async def test_mounted_and_disposed_in_one_tick_never_runs() -> None:
    """C-215: a stale load never starts."""
    loads: list[str] = []
    async with Container() as root:
        fiber = root.plugin(lambda ctx: loads.append("run"), name="brief")
        await fiber.dispose()
        assert fiber.state is DISPOSED
    assert loads == []


@pytest.mark.parametrize("failed", [False, True])
async def test_disposing_a_fiber_that_is_not_up_notifies_once(failed: bool) -> None:
    """C-185: PENDING or FAILED to DISPOSED, with exactly one notification."""

    def body(ctx: Context) -> None:
        raise ValueError("no")

    async with Container() as root:
        fiber = root.plugin(body, inject=() if failed else ("nothing",))
        await root.settle()
        assert fiber.state is (FAILED if failed else PENDING)
        reached = states(root, fiber)
        await fiber.dispose()
        assert reached == [DISPOSED]


async def test_a_load_that_is_retired_by_itself_lands_first() -> None:
    """C-214: the body finishes, then everything is undone."""
    trace: list[str] = []

    async def body(ctx: Context) -> None:
        ctx.fiber.retire()
        await checkpoint()
        ctx.effect(lambda: lambda: trace.append("undone"))
        trace.append("landed")

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.settled()
        assert fiber.state is DISPOSED
    assert trace == ["landed", "undone"]


async def test_settled_returns_for_pending_and_ready_explains_its_timeout() -> None:
    """C-221: `ready()` needs ACTIVE; the text of its timeout contains the explanation."""
    async with Container() as root:
        fiber = root.plugin(lambda ctx: None, name="waits", inject=[TOOL])
        await fiber.settled()
        assert fiber.state is PENDING
        with pytest.raises(TimeoutError) as raised:
            await fiber.ready(timeout=4)
        assert str(raised.value) == (
            'plugin "waits" is not ready after 4 s: '
            'plugin "waits" is PENDING for 4.0 s; waiting for tool, provided by no one'
        )


async def test_ready_of_a_disposed_fiber_raises() -> None:
    """C-221: it will never be ready."""
    async with Container() as root:
        fiber = root.plugin(lambda ctx: None, name="gone")
        fiber.retire()
        with pytest.raises(InactiveFiberError, match='plugin "gone" is DISPOSED'):
            await fiber.ready()
        with pytest.raises(InactiveFiberError, match=r'cannot restart it: plugin "gone" is DISP'):
            await fiber.restart()
        with pytest.raises(InactiveFiberError, match=r'cannot update it: plugin "gone" is DISPO'):
            await fiber.update({})
        await fiber.settled()
        await fiber.dispose()


async def test_nested_plugins_come_and_go_as_one() -> None:
    """C-048: all listeners are there after the load, all gone after disposal, fibers too."""

    def leaf(ctx: Context) -> None:
        ctx.on("internal/service", lambda change: None)

    def middle(ctx: Context) -> None:
        leaf(ctx)
        ctx.plugin(leaf)

    def outer(ctx: Context) -> None:
        leaf(ctx)
        ctx.plugin(middle)

    async with Container() as root:
        fiber = root.plugin(outer)
        await root.settle()
        assert len(root.listeners("internal/service")) == 3
        await fiber.dispose()
        await fiber.dispose()
        assert root.listeners("internal/service") == ()
        assert root.fibers() == (root.fiber,)


async def test_emitting_through_a_disposed_context_works() -> None:
    """C-227: dispatching is legal in every state; registering is not."""
    heard: list[object] = []
    contexts: list[Context] = []
    async with Container() as root:
        fiber = root.plugin(contexts.append, name="gone")
        await fiber.ready()
        await fiber.dispose()
        root.on("internal/plugin", heard.append)
        contexts[0].emit("internal/plugin", fiber)
        assert heard == [fiber]
        with pytest.raises(InactiveFiberError, match='register anonymous: plugin "gone" is DISP'):
            contexts[0].effect(lambda: None)


async def test_a_raising_status_observer_changes_no_transition() -> None:
    """C-179, C-231: contained, and the other observers run."""
    heard: list[object] = []

    def broken(change: StatusChange) -> None:
        raise ValueError("observer")

    async with Container() as root:
        root.on("internal/status", broken)
        root.on("internal/status", lambda change: heard.append(change.new))
        fiber = root.plugin(lambda ctx: None, name="fine")
        await fiber.ready()
        await fiber.dispose()
    assert heard[:4] == [LOADING, ACTIVE, UNLOADING, DISPOSED]


async def test_a_mount_check_refuses_without_a_trace() -> None:
    """C-179: its exception is raised unchanged, nothing of the mount remains."""
    refusal = PermissionError("not here")
    heard: list[object] = []

    def check(fiber: Fiber) -> None:
        if fiber.source == {"level": 9}:
            raise refusal

    @plugin(config=Settings, provides=[TOOL], inject=[OTHER])
    def body(ctx: Context, config: Settings) -> None: ...

    async with Container() as root:
        effect = root.mount_check(check)
        root.on("internal/plugin", heard.append)
        before = root.snapshot()
        with pytest.raises(PermissionError) as raised:
            root.plugin(body, {"level": 9})
        assert raised.value is refusal
        assert (root.snapshot(), heard) == (before, [])
        effect.close()
        assert root.plugin(body, {"level": 9}).state is PENDING


async def test_a_parent_disposed_when_its_child_is_announced_waits_for_it() -> None:
    """C-180: the child body never runs, the child ends DISPOSED."""
    loads: list[str] = []
    children: list[Fiber] = []

    def parent(ctx: Context) -> None:
        children.append(ctx.plugin(lambda ctx: loads.append("child"), name="child"))

    async with Container() as root:

        def note(fiber: Fiber) -> None:
            if fiber.name == "child":
                assert fiber.parent is not None
                fiber.parent.retire()

        root.on("internal/plugin", note)
        fiber = root.plugin(parent)
        await fiber.settled()
        assert (fiber.state, children[0].state, loads) == (DISPOSED, DISPOSED, [])


async def test_a_child_of_a_pending_parent_waits() -> None:
    """C-246: and runs once its parent loads."""
    async with Container() as root:
        parent = root.plugin(lambda ctx: None, name="parent", inject=[TOOL])
        child = parent.ctx.plugin(lambda ctx: None, name="child")
        await root.settle()
        assert (parent.state, child.state) == (PENDING, PENDING)
        root.provide(TOOL, 1)
        await root.settle()
        assert (parent.state, child.state) == (ACTIVE, ACTIVE)


async def test_a_loading_parent_may_await_its_child() -> None:
    """C-246: a child of a LOADING parent runs."""
    seen: list[FiberState] = []

    async def parent(ctx: Context) -> None:
        child = ctx.plugin(lambda ctx: None, name="child")
        await child.ready()
        seen.append(child.state)

    async with Container() as root:
        await root.plugin(parent).ready()
    assert seen == [ACTIVE]


async def test_requirements_given_at_the_mount_count_from_the_start() -> None:
    """C-178: respected before the first activation."""
    seen: list[object] = []
    async with Container() as root:
        fiber = root.plugin(lambda ctx: seen.append(ctx[TOOL]), name="body", inject=[TOOL])
        await root.settle()
        assert seen == []
        root.provide(TOOL, 1)
        await fiber.ready()
    assert seen == [1]


async def test_a_chain_of_two_thousand_services_loads_and_unloads() -> None:
    """C-245: nothing recurses."""
    count = 2000

    def link(number: int) -> Callable[[Context], None]:
        def body(ctx: Context) -> None:
            ctx.provide(f"key{number}", number)

        return body

    async with Container() as root:
        first = root.plugin(link(0), name="first")
        for number in range(1, count):
            root.plugin(link(number), name="link", inject=[f"key{number - 1}"])
        await root.settle()
        assert {fiber.state for fiber in root.fibers()} == {ACTIVE}
        await first.dispose()
        await root.settle()
        assert sum(fiber.state is PENDING for fiber in root.fibers()) == count - 1


async def test_a_deep_tree_of_children_loads_and_unloads() -> None:
    """C-245: also for children of children."""

    def nest(depth: int) -> Callable[[Context], None]:
        def body(ctx: Context) -> None:
            if depth:
                ctx.plugin(nest(depth - 1))

        return body

    async with Container() as root:
        root.plugin(nest(1500))
        await root.settle()
        assert len(root.fibers()) == 1502
    assert len(root.fibers()) <= 1


async def test_a_cancelled_waiter_changes_nothing() -> None:
    """C-248: the transition goes on."""
    slow = Slow()
    async with Container() as root:
        root.provide(TOOL, 1)
        fiber = root.plugin(slow.plugin)
        for wait in (fiber.ready, fiber.settled, root.settle):
            with anyio.move_on_after(1) as scope:
                await wait()
            assert scope.cancelled_caught
            assert fiber.state is LOADING
        slow.load_gate.set()
        await fiber.ready()
        with anyio.move_on_after(1) as scope:
            await fiber.dispose()
        assert scope.cancelled_caught
        assert fiber.state is UNLOADING
        slow.undo_gate.set()
        await fiber.settled()
        assert fiber.state is DISPOSED


async def test_too_many_loads_by_dependencies_fail_the_fiber() -> None:
    """C-254: `RestartBudgetError`; `restart()` recovers it."""
    async with Container(restart_budget=(3, 10)) as root:
        provision = root.provide(TOOL, 0)
        fiber = root.plugin(lambda ctx: None, name="body", inject=[TOOL])
        await fiber.ready()
        for number in range(3):
            provision.replace(number)
            await root.settle()
        assert fiber.state is ACTIVE
        provision.replace("once too often")
        await root.settle()
        assert fiber.state is FAILED
        assert isinstance(fiber.error, RestartBudgetError)
        assert str(fiber.error) == (
            'plugin "body" was loaded 3 times in 10 s by changes of tool; '
            "`await fiber.restart()` tries again"
        )
        await fiber.restart()
        assert fiber.state is ACTIVE


async def test_loads_far_apart_or_by_request_are_within_the_budget() -> None:
    """C-254: only loads by dependencies, only within the time, are counted."""
    async with Container(restart_budget=(2, 10)) as root:
        provision = root.provide(TOOL, 0)
        fiber = root.plugin(lambda ctx: None, name="body", inject=[TOOL])
        for number in range(6):
            provision.replace(number)
            await fiber.ready()
            await anyio.sleep(6)
            await fiber.restart()
        assert fiber.state is ACTIVE


async def test_a_batch_loads_each_consumer_once() -> None:
    """C-255: starts of loads are postponed, unloads go on, updates only record the request."""
    runs: list[object] = []

    @plugin(config=Settings, inject=[TOOL])
    def consumer(ctx: Context, config: Settings) -> None:
        runs.append((ctx[TOOL], config.level))

    async with Container() as root:
        provision = root.provide(TOOL, 1)
        fiber = root.plugin(consumer)
        await fiber.ready()
        async with root.batch():
            for level in range(2, 6):
                await fiber.update({"level": level})
                provision.replace(level)
                await checkpoint()
            provision.close()
            while fiber.state is not PENDING:
                await checkpoint()
            await root.settle()
            root.provide(TOOL, "new")
            assert runs == [(1, 1)]
        assert runs == [(1, 1), ("new", 5)]


async def test_changes_from_another_thread_are_refused() -> None:
    """C-257: `WrongThreadError` for every mutating call."""
    refused: list[str] = []
    async with Container() as root:
        fiber = root.plugin(lambda ctx: None, name="body")
        effect = root.effect(lambda: None, label="mine")
        provision = root.provide(TOOL, 1)
        await fiber.ready()

        def attempt() -> None:
            for call in (
                lambda: root.plugin(lambda ctx: None, name="late"),
                lambda: root.effect(lambda: None, label="late"),
                lambda: root.on("internal/error", print),
                lambda: root.provide(OTHER, 1),
                lambda: provision.replace(2),
                lambda: root.scope(object()),
                fiber.retire,
                effect.close,
            ):
                with pytest.raises(WrongThreadError) as raised:
                    call()
                refused.append(str(raised.value))

        await anyio.to_thread.run_sync(attempt)
        assert fiber.state is ACTIVE
    assert refused == [
        f"cannot {action} from another thread; enter the loop with `anyio.from_thread.run`"
        for action in (
            'mount plugin "late"',
            "register late",
            'register on "internal/error"',
            'register provide "other"',
            'replace provide "tool"',
            'mount plugin "scope"',
            'retire plugin "body"',
            "undo mine",
        )
    ]


async def test_a_plain_fiber_has_no_task() -> None:
    """C-242: plain body, plain undos: no task in its whole life."""
    tasks: list[int] = []

    @plugin
    def body(ctx: Context) -> Iterator[None]:
        tasks.append(anyio.get_current_task().id)
        ctx.effect(lambda: lambda: tasks.append(anyio.get_current_task().id))
        yield
        tasks.append(anyio.get_current_task().id)

    async with Container() as root:
        before = {task.id for task in anyio.get_running_tasks()}
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.restart()
        await fiber.dispose()
    assert len(tasks) == 6
    assert set(tasks) <= before


async def test_load_and_dispose_is_the_identity() -> None:
    """C-049: the snapshot equals the initial one; loading again equals the first load."""

    @plugin(provides=[TOOL])
    async def body(ctx: Context) -> AsyncIterator[None]:
        ctx.provide(TOOL, 1)
        ctx.on("internal/service", lambda change: None)
        ctx.plugin(lambda ctx: None, name="child")
        yield

    def without_uids(snapshot: object) -> object:
        if isinstance(snapshot, dict):
            drop = ("uid", "parent", "provider", "target", "committed")
            return {k: without_uids(v) for k, v in snapshot.items() if k not in drop}
        return [without_uids(one) for one in snapshot] if isinstance(snapshot, list) else snapshot

    async with Container() as root:
        empty, loaded = root.snapshot(), []
        for _ in range(2):
            fiber = root.plugin(body)
            await root.settle()
            loaded.append(without_uids(root.snapshot()))
            await fiber.dispose()
            assert root.snapshot() == empty
        assert loaded[0] == loaded[1]


async def test_an_invalid_config_at_the_mount_fails_without_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-163, C-222: body not called, state FAILED, logged once; a restart changes nothing."""
    runs: list[Settings] = []

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None:
        runs.append(config)

    async with Container() as root:
        fiber = root.plugin(body, {"levle": 2})
        assert fiber.state is FAILED
        await root.settle()
        assert [record.getMessage() for record in caplog.records] == [
            'configuration of plugin "body" failed: ConfigError: plugin "body": '
            'levle: unknown key (did you mean "level"?)'
        ]
        for wait in (fiber.ready, fiber.restart):
            with pytest.raises(PluginFailedError, match=r"levle: unknown key"):
                await wait()
        assert (fiber.state, runs) == (FAILED, [])
        await fiber.update({"level": 2})
        assert runs == [Settings(level=2)]


async def test_an_awaited_config_error_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """C-163: an error that somebody awaits is not logged as well."""

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None: ...

    async with Container() as root:
        with pytest.raises(PluginFailedError, match="level: expected a whole number, got text"):
            await root.plugin(body, {"level": "high"}).ready()
    assert not caplog.records


async def test_an_invalid_update_changes_nothing() -> None:
    """C-164: raises; the running instance and its config are as before."""
    runs: list[int] = []

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None:
        runs.append(config.level)

    async with Container() as root:
        fiber = root.plugin(body, {"level": 2})
        await fiber.ready()
        with pytest.raises(ConfigError, match="level"):
            await fiber.update({"level": []})
        await root.settle()
        assert (fiber.state, fiber.source, runs) == (ACTIVE, {"level": 2}, [2])


async def test_update_handlers_get_validated_configs_and_may_apply_them() -> None:
    """C-165, C-166: (old, new); exactly `True`: no rerun, the new config is kept."""
    asked: list[object] = []
    runs: list[int] = []

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None:
        runs.append(config.level)

        async def apply(old: Settings, new: Settings) -> object:
            await checkpoint()
            asked.append((old.level, new.level))
            return True if new.level < 5 else "yes"

        ctx.on_update(apply)

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.update({"level": 2})
        assert (runs, fiber.config, fiber.source) == ([1], Settings(level=2), {"level": 2})
        await fiber.restart()
        assert runs == [1, 2]
        await fiber.update({"level": 5})
        assert runs == [1, 2, 5]
    assert asked == [(1, 2), (2, 5)]


async def test_update_handlers_do_not_pile_up_and_can_be_disposed() -> None:
    """C-167: a handler belongs to one load; newest first."""
    asked: list[str] = []

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None:
        ctx.on_update(lambda old, new: asked.append("old"))
        removed = ctx.on_update(lambda old, new: asked.append("removed"))
        ctx.on_update(lambda old, new: asked.append("new"))
        removed.close()

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.restart()
        await fiber.update({"level": 3})
    assert asked == ["new", "old"]


async def test_an_equal_config_runs_nothing() -> None:
    """C-263: on a running fiber an equal validated config does nothing."""
    runs: list[int] = []

    @plugin(config=Settings)
    async def body(ctx: Context, config: Settings) -> None:
        runs.append(config.level)
        await checkpoint()

    async with Container() as root:
        fiber = root.plugin(body, {"level": 2})
        await fiber.update({"level": 2})
        await fiber.ready()
        await fiber.update(Settings(level=2))
        assert runs == [2]
        assert fiber.source == Settings(level=2)


@pytest.mark.parametrize("action", ["dispose", "restart", "retire"])
async def test_root_lives_as_long_as_its_block(action: str) -> None:
    """C-050: it cannot be restarted or disposed by itself, and takes no configuration."""
    message = (
        "root lives as long as the block of its container; "
        "`await root.reset()` disposes what it has"
    )

    async def attempt(fiber: Fiber) -> None:
        result = getattr(fiber, action)()
        if result is not None:
            await result

    async with Container() as root:
        with pytest.raises(ContextError) as raised:
            await attempt(root.fiber)
        assert str(raised.value) == message
        with pytest.raises(ConfigError, match="root: takes no configuration"):
            await root.fiber.update({})
        assert root.fiber.state is ACTIVE


async def test_an_update_handler_that_raises_leaves_everything_as_it_was() -> None:
    """C-165: its error reaches the caller of `update`."""

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None:
        def handler(old: Settings, new: Settings) -> bool:
            raise ValueError("not now")

        ctx.on_update(handler)

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        with pytest.raises(ValueError, match="not now"):
            await fiber.update({"level": 2})
        assert (fiber.state, fiber.config) == (ACTIVE, Settings(level=1))
