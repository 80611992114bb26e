"""Unloading: the guard, the order of the stack, and children under it."""

from collections.abc import AsyncIterator, Callable, Iterable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import (
    Container,
    Context,
    Fiber,
    FiberState,
    InactiveFiberError,
    Plugin,
    ServiceKey,
    StatusChange,
    plugin,
)

ACTIVE, PENDING, DISPOSED = FiberState.ACTIVE, FiberState.PENDING, FiberState.DISPOSED
UNLOADING = FiberState.UNLOADING
TOOL: ServiceKey[str] = ServiceKey("tool")


def member(
    trace: list[str],
    name: str,
    *,
    inject: Iterable[str] = (),
    provides: str | None = None,
    inside: Callable[[Context], object] = lambda ctx: None,
) -> Plugin:
    """A plugin that notes its load and its asynchronous, slow undo."""

    @plugin(name=name, inject=inject, provides=() if provides is None else (provides,))
    def body(ctx: Context) -> None:
        async def undo() -> None:
            trace.append(f"{name} undoes")
            await anyio.sleep(1)
            trace.append(f"{name} is down")

        trace.append(f"{name} loads")
        ctx.effect(lambda: undo, label=f"undo of {name}")
        if provides is not None:
            ctx.provide(provides, name)
        inside(ctx)

    return body


def recorded(root: Container) -> list[str]:
    changes: list[str] = []

    def note(change: StatusChange) -> None:
        changes.append(f"{change.fiber.name} {change.new.value}")

    root.on("internal/status", note)
    return changes


async def test_a_provider_is_undone_after_its_consumers_are_down() -> None:
    """C-029, C-211: consumers first, awaited; a consumer that stays mounted ends PENDING."""
    trace: list[str] = []
    async with Container() as root:
        provider = root.plugin(member(trace, "provider", provides="tool"))
        consumers = [root.plugin(member(trace, name, inject=["tool"])) for name in "ab"]
        await root.settle()
        trace.clear()
        await provider.dispose()
        assert trace[-2:] == ["provider undoes", "provider is down"]
        assert sorted(trace[:4]) == ["a is down", "a undoes", "b is down", "b undoes"]
        assert [fiber.state for fiber in consumers] == [PENDING, PENDING]


async def test_states_change_in_order_on_withdrawal() -> None:
    """C-232: provider UNLOADING, consumers UNLOADING, consumers PENDING, provider DISPOSED."""
    trace: list[str] = []
    async with Container() as root:
        provider = root.plugin(member(trace, "provider", provides="tool"))
        root.plugin(member(trace, "one", inject=["tool"]))
        root.plugin(member(trace, "two", inject=["tool"]))
        await root.settle()
        changes = recorded(root)
        await provider.dispose()
    assert changes[0] == "provider UNLOADING"
    assert changes[1:3] == ["one UNLOADING", "two UNLOADING"]
    assert sorted(changes[3:5]) == ["one PENDING", "two PENDING"]
    assert changes[5] == "provider DISPOSED"


async def test_a_chain_comes_down_from_its_end() -> None:
    """C-211: the guard is transitive."""
    trace: list[str] = []
    async with Container() as root:
        first = root.plugin(member(trace, "first", provides="one"))
        root.plugin(member(trace, "second", inject=["one"], provides="two"))
        root.plugin(member(trace, "third", inject=["two"]))
        await root.settle()
        trace.clear()
        await first.dispose()
    assert [line for line in trace if line.endswith("down")] == [
        "third is down",
        "second is down",
        "first is down",
    ]


async def test_a_consumer_uses_the_service_to_the_end_of_its_own_teardown() -> None:
    """C-225: an injected object is readable during the own unload and raises afterwards."""
    seen: list[object] = []

    @plugin
    def provider(ctx: Context) -> None:
        ctx.provide("tool", "hammer")

    @plugin(inject=["tool"])
    async def consumer(ctx: Context) -> AsyncIterator[None]:
        contexts.append(ctx)
        yield
        await anyio.sleep(1)
        seen.append(ctx[TOOL])

    contexts: list[Context] = []
    async with Container() as root:
        mounted = root.plugin(provider)
        fiber = root.plugin(consumer)
        await fiber.ready()
        await mounted.dispose()
        assert seen == ["hammer"]
        with pytest.raises(LookupError):
            contexts[0][TOOL]


async def test_adjacent_children_go_together_and_a_plain_effect_is_a_barrier() -> None:
    """C-258: retired newest first and awaited together; an effect between them waits."""
    trace: list[str] = []

    def parent(ctx: Context) -> None:
        for name in ("a", "b"):
            ctx.plugin(member(trace, name))
        ctx.effect(lambda: lambda: trace.append("barrier"))
        for name in ("c", "d"):
            ctx.plugin(member(trace, name))

    async with Container() as root:
        fiber = root.plugin(parent)
        await root.settle()
        trace.clear()
        changes = recorded(root)
        await fiber.dispose()
    assert trace[4] == "barrier"
    assert [sorted(trace[first : first + 4]) for first in (0, 5)] == [
        ["c is down", "c undoes", "d is down", "d undoes"],
        ["a is down", "a undoes", "b is down", "b undoes"],
    ]
    assert trace.index("c undoes") < trace.index("d is down")
    retired = [line for line in changes if line.endswith("UNLOADING")]
    assert retired[:5] == [f"{name} UNLOADING" for name in ("parent", "d", "c", "b", "a")]


async def test_a_child_stays_up_until_its_turn_in_its_parents_stack() -> None:
    """C-412: ACTIVE and admitting while the parent is UNLOADING; younger effects go first."""
    children: list[Fiber] = []
    seen: list[object] = []

    def child(ctx: Context) -> None: ...

    def parent(ctx: Context) -> None:
        children.append(ctx.plugin(child))

        async def drain() -> None:
            (fiber,) = children
            seen.append((fiber.state, fiber.admits, ctx.fiber.state, ctx.fiber.admits))
            await checkpoint()
            fiber.ctx.effect(lambda: lambda: seen.append("late effect undone"))
            seen.append(fiber.state)

        ctx.effect(lambda: drain)

    async with Container() as root:
        fiber = root.plugin(parent)
        await root.settle()
        await fiber.dispose()
    assert seen == [(ACTIVE, True, UNLOADING, False), ACTIVE, "late effect undone"]
    assert children[0].state is DISPOSED


async def test_a_child_that_is_not_loaded_does_not_start_under_an_unloading_parent() -> None:
    """C-413: nor is one loaded again that was unloaded meanwhile."""
    loads: list[str] = []

    def child(ctx: Context) -> None:
        loads.append(f"child with {ctx[TOOL]}")

    def tool(ctx: Context) -> None:
        ctx.provide("tool", f"tool {len(loads)}")

    async with Container() as root:

        def parent(ctx: Context) -> None:
            ctx.plugin(child, inject=["tool"])

            async def drain() -> None:
                await providers.pop().dispose()
                providers.append(root.plugin(tool))
                await providers[0].ready()

            ctx.effect(lambda: drain)

        providers = [root.plugin(tool)]
        fiber = root.plugin(parent)
        await root.settle()
        assert loads == ["child with tool 0"]
        await fiber.dispose()
        assert providers[0].state is ACTIVE
    assert loads == ["child with tool 0"]


async def test_a_child_of_a_failed_parent_never_starts() -> None:
    """C-413: what a failing body mounted is undone before it runs."""
    loads: list[str] = []

    def child(ctx: Context) -> None:
        loads.append("child")

    def parent(ctx: Context) -> None:
        ctx.plugin(child)
        raise ValueError("no")

    async with Container() as root:
        fiber = root.plugin(parent)
        await root.settle()
        assert fiber.state is FiberState.FAILED
        assert root.fibers(child) == ()
    assert loads == []


async def test_a_child_that_uses_its_parents_service_goes_before_the_first_undo() -> None:
    """C-414: it unloads by the guard; a child that does not use it keeps its turn."""
    trace: list[str] = []

    def inside(ctx: Context) -> None:
        ctx.plugin(member(trace, "user", inject=["tool"]))
        ctx.plugin(member(trace, "other"))
        ctx.effect(lambda: lambda: trace.append("younger effect"))

    async with Container() as root:
        fiber = root.plugin(member(trace, "parent", provides="tool", inside=inside))
        await root.settle()
        trace.clear()
        await fiber.dispose()
    assert trace == [
        *("user undoes", "user is down"),
        "younger effect",
        *("other undoes", "other is down"),
        *("parent undoes", "parent is down"),
    ]


@pytest.mark.parametrize("action", ["plugin", "effect", "on", "spawn", "provide", "scope"])
async def test_an_undo_cannot_register_anything(action: str) -> None:
    """C-045, C-156, C-157, C-176, C-177: each attempt raises, and the fiber settles."""
    refused: list[str] = []

    def body(ctx: Context) -> None:
        attempts: dict[str, Callable[[], object]] = {
            "plugin": lambda: ctx.plugin(lambda ctx: None, name="late"),
            "effect": lambda: ctx.effect(lambda: None, label="late"),
            "on": lambda: ctx.on("internal/error", print),
            "spawn": lambda: ctx.spawn(anyio.sleep, 1),
            "provide": lambda: ctx.provide("late", 1),
            "scope": lambda: ctx.scope(object()),
        }

        def undo() -> None:
            for _ in range(3):
                try:
                    attempts[action]()
                except InactiveFiberError as error:
                    refused.append(str(error))

        ctx.effect(lambda: undo)

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.dispose(check=True)
    label = {
        "plugin": 'mount plugin "late"',
        "effect": "register late",
        "on": 'register on "internal/error"',
        "spawn": 'register task "sleep"',
        "provide": 'register provide "late"',
        "scope": 'mount plugin "scope"',
    }[action]
    assert refused == [f'cannot {label}: plugin "body" is UNLOADING'] * 3


async def test_effects_of_a_pending_fiber_are_accepted_and_undone() -> None:
    """C-156, C-177: PENDING and LOADING admit; what PENDING got is undone with the disposal."""
    trace: list[str] = []
    async with Container() as root:
        fiber = root.plugin(lambda ctx: None, name="waits", inject=["nothing"])
        await fiber.settled()
        assert (fiber.state, fiber.admits) == (PENDING, True)
        fiber.ctx.effect(lambda: lambda: trace.append("undone"))
        await fiber.dispose()
        assert trace == ["undone"]
        assert fiber.state is DISPOSED


async def test_everything_goes_before_the_code_after_the_yield() -> None:
    """C-238: the body is the oldest item; resources of its `async with` close last."""
    trace: list[str] = []

    @plugin
    async def body(ctx: Context) -> AsyncIterator[None]:
        async with anyio.create_task_group():
            ctx.effect(lambda: lambda: trace.append("effect"))
            ctx.plugin(member(trace, "child"))
            yield
            trace.append("after yield")
        trace.append("closed")

    async with Container() as root:
        fiber = root.plugin(body)
        await root.settle()
        trace.clear()
        await fiber.dispose()
    assert trace == ["child undoes", "child is down", "effect", "after yield", "closed"]


async def test_all_callers_of_dispose_return_at_the_same_completion() -> None:
    """C-212: nobody returns early, nobody runs anything twice."""
    trace: list[str] = []

    async def dispose(fiber: Fiber) -> None:
        await fiber.dispose()
        trace.append(f"returned {fiber.state.value}")

    async with Container() as root:
        fiber = root.plugin(member(trace, "it"))
        await fiber.ready()
        trace.clear()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(dispose, fiber)
                await checkpoint()
    assert trace == ["it undoes", "it is down", *["returned DISPOSED"] * 3]


async def test_disposal_contains_failures_and_check_raises_all_of_the_tree(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-031, C-175: contained and logged once, or one flat group; repeated calls share it."""

    def raising(name: str, inside: Callable[[Context], object] = lambda ctx: None) -> Plugin:
        def undo() -> None:
            raise ValueError(name)

        @plugin(name=name)
        def body(ctx: Context) -> None:
            ctx.effect(lambda: undo, label="mine")
            inside(ctx)

        return body

    async with Container() as root:
        quiet = root.plugin(raising("quiet"))
        tree = root.plugin(raising("parent", lambda ctx: ctx.plugin(raising("child"))))
        await root.settle()
        await quiet.dispose()
        assert [record.getMessage() for record in caplog.records] == [
            'teardown of plugin "quiet" failed: ValueError: quiet'
        ]
        caplog.clear()
        for _ in range(2):
            with pytest.raises(ExceptionGroup) as raised:
                await tree.dispose(check=True)
            assert [str(error) for error in raised.value.exceptions] == ["child", "parent"]
        assert raised.value.exceptions[0].__notes__ == ['while undoing mine of plugin "child"']
        assert not caplog.records


async def test_a_checked_disposal_counts_the_unload_in_progress_but_no_completed_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-175: failures of completed unloads were reported then."""

    gate = anyio.Event()
    loads: list[int] = []

    @plugin(inject=["tool"])
    def consumer(ctx: Context) -> None:
        loads.append(len(loads))

        async def undo() -> None:
            await gate.wait()
            raise ValueError(f"unload {loads[-1]}")

        ctx.effect(lambda: undo)

    async with Container() as root:
        fiber = root.plugin(consumer)
        first = root.provide("tool", 1)
        await fiber.ready()
        first.close()
        gate.set()
        await fiber.settled()
        assert len(caplog.records) == 1
        gate = anyio.Event()
        second = root.provide("tool", 2)
        await fiber.ready()
        second.close()
        await fiber.changed()
        fiber.retire()
        gate.set()
        with pytest.raises(ExceptionGroup) as raised:
            await fiber.dispose(check=True)
        assert [str(error) for error in raised.value.exceptions] == ["unload 1"]
        assert len(caplog.records) == 1


async def test_a_disposal_of_a_waiting_fiber_does_not_repeat_old_failures() -> None:
    """C-175, C-185: completed unloads do not count, also when nothing is left to undo."""

    @plugin(inject=["tool"])
    def consumer(ctx: Context) -> None:
        def undo() -> None:
            raise ValueError("old")

        ctx.effect(lambda: undo)

    async with Container() as root:
        fiber = root.plugin(consumer)
        provision = root.provide("tool", 1)
        await fiber.ready()
        provision.close()
        await fiber.settled()
        await fiber.dispose(check=True)
        assert fiber.state is DISPOSED


async def test_reset_takes_down_all_children_and_root_can_be_used_again() -> None:
    """C-050: children and effects go, root keeps its uid, again and again; exit is final."""
    trace: list[str] = []
    async with Container() as root:
        uid = root.fiber.uid
        for _ in range(2):
            root.effect(lambda: lambda: trace.append("effect undone"))
            provided = root.provide("tool", "hammer")
            fiber = root.plugin(member(trace, "child", inject=["tool"]))
            await fiber.ready()
            await root.reset()
            assert trace == ["child loads", "child undoes", "child is down", "effect undone"]
            assert (fiber.state, provided.done) == (DISPOSED, True)
            assert root.fibers() == (root.fiber,)
            assert (root.fiber.uid, root.fiber.state) == (uid, ACTIVE)
            trace.clear()
        last = root.plugin(member(trace, "last"))
        await last.ready()
    assert last.state is DISPOSED
    with pytest.raises(InactiveFiberError, match='cannot mount plugin "last": root is DISPOSED'):
        root.plugin(member(trace, "last"))


async def test_an_interrupted_unload_of_a_child_is_joined_by_its_loading_parent() -> None:
    """C-181: a child that began to go before its parent's unload is waited for."""
    trace: list[str] = []

    async def parent(ctx: Context) -> None:
        child = ctx.plugin(member(trace, "child"))
        await child.ready()
        child.retire()
        await checkpoint()
        raise ValueError("no")

    async with Container() as root:
        fiber = root.plugin(parent)
        await root.settle()
        trace.append(fiber.state.value)
    assert trace == ["child loads", "child undoes", "child is down", "FAILED"]
