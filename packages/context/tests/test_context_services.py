"""Services: providing, looking up, withdrawal, optional keys, realms."""

import copy
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from terret_context import (
    Container,
    Context,
    DuplicateServiceError,
    Fiber,
    FiberState,
    InactiveFiberError,
    NotInjectedError,
    ReservedNameError,
    Service,
    ServiceChange,
    ServiceKey,
    ServiceUnavailableError,
    plugin,
)

PENDING, ACTIVE, FAILED = FiberState.PENDING, FiberState.ACTIVE, FiberState.FAILED
TOOL: ServiceKey[object] = ServiceKey("tool")
OTHER: ServiceKey[object] = ServiceKey("other")
FIX = 'add "tool" to `inject`, or use `ctx.get("tool")` if the plugin can do without'


def nothing(ctx: Context) -> None: ...


def reader(seen: list[object], **declared: Any) -> Any:
    """A plugin that notes the tool it gets with each load."""

    @plugin(name="reader", **declared)
    def body(ctx: Context) -> None:
        seen.append(ctx.get(TOOL))

    return body


async def up(root: Container, recipe: object = nothing, **options: Any) -> Context:
    fiber = root.plugin(recipe, **options)
    await fiber.ready()
    context: Context = fiber.ctx
    return context


async def test_a_part_that_depends_on_a_key_comes_and_goes_with_it() -> None:
    """C-006: `ctx.inject` in `init`; the service is ACTIVE all along."""
    trace: list[object] = []

    class Shelf(Service, key="shelf"):
        def init(self) -> None:
            self.ctx.inject([TOOL], self.with_tool)

        def with_tool(self, ctx: Context) -> None:
            trace.append(ctx[TOOL])
            ctx.effect(lambda: lambda: trace.append("undone"))

    async with Container() as root:
        fiber = root.plugin(Shelf)
        await root.settle()
        assert (fiber.state, trace) == (ACTIVE, [])
        provision = root.provide(TOOL, "hammer")
        await root.settle()
        provision.close()
        await root.settle()
        assert (fiber.state, trace) == (ACTIVE, ["hammer", "undone"])


async def test_every_view_is_a_context() -> None:
    """C-052: and the container is one too."""
    async with Container() as root:
        ctx = await up(root)
        views = (root, ctx, ctx.isolate(TOOL), ctx.scope(object()), root.with_realms({}))
        assert all(isinstance(view, Context) for view in views)
        assert ctx.root is root
        assert ctx.isolate(TOOL).fiber is ctx.fiber


async def test_an_undeclared_read_names_plugin_key_and_fix() -> None:
    """C-053, C-058, C-273: also for what only root provides."""
    async with Container() as root:
        root.provide(TOOL, 1)
        ctx = await up(root, name="user", entry="harness.yml#user")
        with pytest.raises(NotInjectedError) as raised:
            ctx[TOOL]
        assert (raised.value.key, raised.value.plugin) == ("tool", str(ctx.fiber))
        assert str(raised.value) == (
            f'plugin "user" (harness.yml#user) uses "tool" without declaring it: {FIX}'
        )
        assert root[TOOL] == 1


async def test_a_second_provider_in_a_realm_is_refused_naming_the_first() -> None:
    """C-053: only the holder of the provision can replace the object."""
    async with Container() as root:
        provision = root.provide(TOOL, 1)
        ctx = await up(root)
        with pytest.raises(DuplicateServiceError) as raised:
            ctx.provide(TOOL, 2)
        assert str(raised.value) == (
            '"tool" is already provided by root in this realm; remove one or isolate it'
        )
        with pytest.raises(DuplicateServiceError, match="already provided by root"):
            root.provide(TOOL, 2)
        assert [effect.label for effect in root.fiber.effects.values()] == [
            'provide "tool"',
            'plugin "nothing"',
        ]
        provision.replace(3)
        assert root[TOOL] == 3


async def test_a_provision_that_was_withdrawn_cannot_be_replaced() -> None:
    """C-053: nor one whose fiber unloads."""
    async with Container() as root:
        provision = root.provide(TOOL, 1)
        provision.close()
        provision.close()
        with pytest.raises(InactiveFiberError, match='cannot replace provide "tool": root is ACT'):
            provision.replace(2)
        assert root.get(TOOL) is None


async def test_setting_an_attribute_of_a_context_names_provide() -> None:
    """C-053: a context is no bag."""
    async with Container() as root:
        with pytest.raises(AttributeError) as raised:
            root.tool = 1  # type: ignore[attr-defined]  # the mistake under test
    assert str(raised.value) == (
        'cannot set "tool" on a context; offer a service with `ctx.provide(key, value)`'
    )


async def test_get_finds_services_only() -> None:
    """C-054: never attributes of the context."""
    async with Container() as root:
        assert root.get(TOOL) is None
        assert root.get(ServiceKey[object]("fiber")) is None
        root.provide(TOOL, 1)
        ctx = await up(root)
        assert (ctx.get(TOOL), root.get(TOOL)) == (1, 1)


async def test_reading_through_a_disposed_context_raises() -> None:
    """C-055: the binding is gone."""
    async with Container() as root:
        root.provide(TOOL, 1)
        ctx = await up(root, name="user", inject=[TOOL])
        assert ctx[TOOL] == 1
        await ctx.fiber.dispose()
        with pytest.raises(ServiceUnavailableError) as raised:
            ctx[TOOL]
        assert raised.value.reason == 'plugin "user" is DISPOSED'
        assert ctx.get(TOOL) == 1


async def test_a_consumer_waits_while_the_provider_is_loading() -> None:
    """C-056: and runs once when its `init` ends."""
    gate = anyio.Event()
    seen: list[object] = []

    class Shelf(Service, key="tool"):
        async def init(self) -> None:
            await gate.wait()

    async with Container() as root:
        fiber = root.plugin(reader(seen, inject=[TOOL]))
        provider = root.plugin(Shelf)
        while provider.state is not FiberState.LOADING:
            await checkpoint()
        assert (fiber.state, root.get(TOOL)) == (PENDING, None)
        assert str(root.explain(fiber)).endswith('provider plugin "tool" is LOADING')
        gate.set()
        await fiber.ready()
    assert len(seen) == 1


async def test_a_service_that_injects_itself_in_a_nested_plugin_leaves_nothing() -> None:
    """C-059: its listeners go with it."""

    class Shelf(Service, key="tool"):
        def init(self) -> None:
            self.ctx.plugin(self.nested, inject=[TOOL])

        def nested(self, ctx: Context) -> None:
            ctx.on("internal/service", lambda change: None)

    async with Container() as root:
        fiber = root.plugin(Shelf)
        await root.settle()
        assert len(root.listeners("internal/service")) == 1
        await fiber.dispose()
        assert root.listeners("internal/service") == ()
        assert root.fibers() == (root.fiber,)


async def test_services_mounted_in_the_worst_order_start_once_each() -> None:
    """C-060, B-245: foo needs qux, bar needs foo and qux."""
    started: list[str] = []

    def service(key: str, *needs: str) -> type[Service]:
        class Made(Service, key=key, inject=needs):
            def init(self) -> None:
                started.append(key)

        return Made

    async with Container() as root:
        for made in (service("bar", "foo", "qux"), service("foo", "qux"), service("qux")):
            root.plugin(made)
        await root.settle()
    assert started == ["qux", "foo", "bar"]


async def test_replacing_restarts_consumers_once_and_mutating_nobody() -> None:
    """C-217: with the new object."""
    seen: list[object] = []
    tools = ["hammer"]
    async with Container() as root:
        provision = root.provide(TOOL, tools)
        fiber = root.plugin(reader(seen, inject=[TOOL]))
        await fiber.ready()
        tools.append("saw")
        await root.settle()
        assert seen == [tools]
        provision.replace("new")
        await root.settle()
        assert seen == [tools, "new"]


async def test_own_services_are_readable_while_loading_and_never_seen_if_it_fails() -> None:
    """C-223: inside the provider and its children at once."""
    seen: list[object] = []

    async def provider(ctx: Context) -> None:
        ctx.provide(TOOL, 1)
        seen.append(ctx[TOOL])
        child = ctx.plugin(lambda ctx: seen.append(ctx[TOOL]), name="child")
        await child.ready()
        assert root.get(TOOL) is None
        raise ValueError("no")

    async with Container() as root:
        fiber = root.plugin(reader(seen, inject=[TOOL]))
        failing = root.plugin(provider)
        await root.settle()
        assert (failing.state, fiber.state, seen) == (FAILED, PENDING, [1, 1])


async def test_a_child_uses_what_an_ancestor_declared_or_provided() -> None:
    """C-226: unless the key is isolated in between."""
    seen: list[object] = []

    def child(ctx: Context) -> None:
        seen.append((ctx[TOOL], ctx[OTHER]))

    def parent(ctx: Context) -> None:
        ctx.provide(OTHER, "provided")
        ctx.plugin(lambda ctx: ctx.plugin(child) and None, name="between")
        ctx.isolate(OTHER).plugin(child, name="isolated")

    async with Container() as root:
        root.provide(TOOL, "declared")
        root.plugin(parent, inject=[TOOL])
        await root.settle()
        (isolated,) = (one for one in root.fibers() if one.name == "isolated")
        assert isinstance(isolated.error, NotInjectedError)
        assert isolated.error.key == "other"
    assert seen == [("declared", "provided")]


async def test_both_lookups_give_the_same_object_and_behave() -> None:
    """C-265: attribute and key; `hasattr`, `copy` and `inspect` work on a context."""
    key: ServiceKey[object] = ServiceKey("someTool")
    async with Container() as root:
        root.provide(key, tool := object())
        ctx: Any = await up(root, inject=[key])
        assert ctx[key] is ctx.some_tool is ctx["someTool"] is tool
        assert hasattr(ctx, "some_tool")
        assert not hasattr(ctx, "unknown")
        assert copy.copy(ctx)[key] is tool
        assert inspect.getmembers(ctx)
        assert not inspect.isawaitable(ctx)


async def test_names_with_an_underscore_are_never_services() -> None:
    """C-266: whatever is provided."""
    async with Container() as root:
        ctx: Any = root
        with pytest.raises(AttributeError, match=r"^_tool$"):
            ctx._tool  # noqa: B018 - the access is under test
        with pytest.raises(AttributeError, match=r"^__tool__$"):
            ctx.__tool__  # noqa: B018 - the access is under test


@pytest.mark.parametrize("name", ["fiber", "plugin", "onUpdate", "scopeKey", "get"])
async def test_a_key_named_like_a_member_of_a_context_is_reserved(name: str) -> None:
    """C-266: in its Python spelling."""
    member = {"onUpdate": "on_update", "scopeKey": "scope_key"}.get(name, name)
    message = f'a service cannot be named "{name}": `Context.{member}` exists; choose another name'
    async with Container() as root:
        with pytest.raises(ReservedNameError) as raised:
            root.provide(ServiceKey[object](name), 1)
        assert str(raised.value) == message

    with pytest.raises(ReservedNameError):
        type("Wrong", (Service,), {}, key=name)


def test_a_service_name_is_camel_case() -> None:
    """C-266: one spelling outside."""
    for wrong in ("some_tool", "Tool", "some-tool", "", "1st"):
        with pytest.raises(ValueError, match='a service name is camelCase, like "systemPrompt"'):
            ServiceKey[object](wrong)


async def test_an_optional_key_never_blocks_and_its_changes_restart_once() -> None:
    """C-267: it comes, changes, goes: one load each; the guard drains the consumer first."""
    trace: list[object] = []

    @plugin(optional=[TOOL])
    async def adaptive(ctx: Context) -> AsyncIterator[None]:
        trace.append(ctx.get(TOOL))
        yield
        await checkpoint()
        trace.append("consumer down")

    @plugin
    async def provider(ctx: Context) -> AsyncIterator[None]:
        provisions.append(ctx.provide(TOOL, "first"))
        yield
        trace.append("provider down")

    provisions: list[Any] = []
    async with Container() as root:
        fiber = root.plugin(adaptive)
        await fiber.ready()
        mounted = root.plugin(provider)
        await root.settle()
        provisions[0].replace("second")
        await root.settle()
        await mounted.dispose()
        await root.settle()
        assert fiber.state is ACTIVE
        assert trace == [
            None,
            *("consumer down", "first"),
            *("consumer down", "second"),
            *("consumer down", *trace[6:]),
        ]
        assert set(trace[6:]) == {"provider down", None}  # the load without it need not wait


async def test_an_absent_optional_key_is_unavailable_with_the_reason() -> None:
    """C-267, C-273: `ctx.get` is for the plugin that adapts."""
    async with Container() as root:
        ctx = await up(root, plugin(name="adaptive", optional=[TOOL])(nothing))
        with pytest.raises(ServiceUnavailableError) as raised:
            ctx[TOOL]
        assert str(raised.value) == (
            '"tool" is not available to plugin "adaptive": waiting for tool, provided by no one'
        )


async def test_a_fiber_never_resolves_a_key_to_itself_or_a_descendant() -> None:
    """C-268: it would wait for itself."""

    @plugin(optional=[TOOL])
    def own(ctx: Context) -> None:
        seen.append(ctx.fiber.committed)
        ctx.provide(TOOL, 1)

    @plugin(optional=[OTHER])
    def above(ctx: Context) -> None:
        seen.append(ctx.fiber.committed)
        ctx.plugin(lambda ctx: ctx.provide(OTHER, 1) and None, name="below")

    seen: list[object] = []
    async with Container() as root:
        fibers = [root.plugin(own), root.plugin(above)]
        await root.settle()
        assert [fiber.state for fiber in fibers] == [ACTIVE, ACTIVE]
        assert root.get(OTHER) == 1
    assert seen == [{"tool": None}, {"other": None}]


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
async def test_two_plugins_that_are_optional_for_each_other_both_run(order: slice) -> None:
    """C-420: at most two loads each; the one mounted first sees the other as absent."""
    loads: list[tuple[str, object]] = []

    def member(name: str, needs: str) -> object:
        @plugin(name=name, provides=[name], optional=[needs])
        def body(ctx: Context) -> None:
            loads.append((name, ctx.get(ServiceKey[object](needs)) is not None))
            ctx.provide(name, name)

        return body

    pairs = [("left", "right"), ("right", "left")][order]
    async with Container() as root:
        fibers = [root.plugin(member(*pair)) for pair in pairs]
        await root.settle()
        assert [fiber.state for fiber in fibers] == [ACTIVE, ACTIVE]
        first, second = (name for name, _ in pairs)
        assert loads[-1] == (second, True)
        assert [seen for name, seen in loads if name == first] == [False]
        assert len(loads) <= 4


@pytest.mark.parametrize("first", ["needs", "adapts"])
async def test_the_optional_edge_of_a_mixed_cycle_counts_as_absent(first: str) -> None:
    """C-420: whatever was mounted first."""

    @plugin(provides=["hard"], inject=["soft"])
    def needs(ctx: Context) -> None:
        ctx.provide("hard", 1)

    @plugin(provides=["soft"], optional=["hard"])
    def adapts(ctx: Context) -> None:
        committed.append(ctx.fiber.committed)
        ctx.provide("soft", 1)

    committed: list[object] = []
    plugins = [needs, adapts] if first == "needs" else [adapts, needs]
    async with Container() as root:
        fibers = [root.plugin(one) for one in plugins]
        await root.settle()
        assert [fiber.state for fiber in fibers] == [ACTIVE, ACTIVE]
    assert committed == [{"hard": None}]


async def test_a_longer_cycle_with_an_optional_edge_settles() -> None:
    """C-420: a needs b, b needs c, c can do without a."""

    def member(name: str, **declared: Any) -> object:
        @plugin(name=name, provides=[name], **declared)
        def body(ctx: Context) -> None:
            ctx.provide(name, name)

        return body

    async with Container() as root:
        fibers = [
            root.plugin(member("a", inject=["b"])),
            root.plugin(member("b", inject=["c"])),
            root.plugin(member("c", optional=["a"])),
        ]
        await root.settle()
        assert {fiber.state for fiber in fibers} == {ACTIVE}
        await fibers[1].dispose()
        await root.settle()
        assert [fiber.state for fiber in fibers[::2]] == [PENDING, ACTIVE]


async def test_an_optional_edge_counts_once_nothing_closes_the_cycle_any_more() -> None:
    """C-420: disposing what was between restarts the fiber with the binding."""

    def member(name: str, **declared: Any) -> object:
        @plugin(name=name, **declared)
        def body(ctx: Context) -> None:
            for key in declared["provides"]:
                ctx.provide(key, name)

        return body

    async with Container() as root:
        adaptive = root.plugin(member("adaptive", provides=["a"], optional=["x"]))
        root.plugin(member("far", provides=["x"], optional=["m"]))
        between = root.plugin(member("between", provides=["m"], inject=["a"]))
        await root.settle()
        assert adaptive.committed == {"x": None}
        await between.dispose()
        await root.settle()
        assert adaptive.committed is not None
        assert adaptive.committed["x"] is not None


def circle(*names: str) -> list[object]:
    """Plugins of which each requires the next one, and the last the first."""

    def member(name: str, needs: str) -> object:
        @plugin(name=name, provides=[name], inject=[needs])
        def body(ctx: Context) -> None:
            ctx.provide(name, name)

        return body

    return [member(name, needs) for name, needs in zip(names, (*names[1:], names[0]), strict=True)]


def logged_circles(caplog: pytest.LogCaptureFixture) -> list[str]:
    before, after = "plugins that wait for each other: ", "; make one of the keys optional"
    lines = [record.getMessage() for record in caplog.records]
    found = [line for line in lines if line.startswith(before) and line.endswith(after)]
    return [line.removeprefix(before).removesuffix(after) for line in found]


async def test_circles_stay_pending_and_are_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-182, C-224: when the container settles, once per set; others are left alone."""
    async with Container() as root:
        alone = [root.plugin(one) for one in circle("alone")]
        others = [root.plugin(one) for one in circle("a", "b", "c")]
        waiting = root.plugin(plugin(name="waiting", inject=["b"])(nothing))
        fine = root.plugin(nothing)
        await root.settle()
        assert {fiber.state for fiber in (*alone, *others, waiting)} == {PENDING}
        assert fine.state is ACTIVE
        assert logged_circles(caplog) == ["alone → alone", "a → b → c → a"]
        root.plugin(plugin(name="another", provides=["more"])(lambda ctx: None))
        await root.settle()
        assert len(logged_circles(caplog)) == 2
        assert root.explain(others[1]).cycle == ("b", "c", "a", "b")
        assert root.explain(waiting).cycle == ()
        assert "cycle: b → c → a → b" in str(root.explain(others[1]))


async def test_a_circle_through_a_parent_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """C-182, C-268: a child that provides what its parent waits for."""

    @plugin(provides=[TOOL])
    def child(ctx: Context) -> None:
        ctx.provide(TOOL, 1)

    async with Container() as root:
        parent = root.plugin(plugin(name="parent", inject=[TOOL])(nothing))
        parent.ctx.plugin(child)
        await root.settle()
        assert parent.state is PENDING
    assert logged_circles(caplog) == ["parent → child → parent"]


async def test_circles_are_not_seen_across_realms(caplog: pytest.LogCaptureFixture) -> None:
    """C-182: the same keys in another realm close nothing."""
    async with Container() as root:
        first, second = circle("a", "b")
        isolated = root.isolate(ServiceKey[object]("a"))
        isolated.plugin(first)
        root.plugin(second)
        await root.settle()
    assert logged_circles(caplog) == []


async def test_three_realms_of_one_name_are_independent() -> None:
    """C-033: each consumer follows its own realm only."""
    async with Container() as root:
        realms = [root, root.isolate(TOOL), root.isolate(TOOL)]
        fibers = [realm.plugin(nothing, inject=[TOOL]) for realm in realms]
        provisions = [realm.provide(TOOL, number) for number, realm in enumerate(realms)]
        await root.settle()
        assert [fiber.ctx[TOOL] for fiber in fibers] == [0, 1, 2]
        loaded = [fiber.target for fiber in fibers]
        provisions[1].close()
        await root.settle()
        assert [fiber.state for fiber in fibers] == [ACTIVE, PENDING, ACTIVE]
        assert [fibers[0].target, fibers[2].target] == [loaded[0], loaded[2]]
        assert [realm.get(TOOL) for realm in realms] == [0, None, 2]


async def test_one_label_is_one_realm() -> None:
    """C-034: one provide activates both, one withdrawal deactivates both; root's is unaffected."""
    async with Container() as root:
        fibers = [root.isolate(TOOL, "shared").plugin(nothing, inject=[TOOL]) for _ in "ab"]
        outside = root.plugin(nothing, inject=[TOOL])
        provision = root.isolate(TOOL, "shared").provide(TOOL, 1)
        await root.settle()
        assert [fiber.state for fiber in (*fibers, outside)] == [ACTIVE, ACTIVE, PENDING]
        provision.close()
        await root.settle()
        assert [fiber.state for fiber in (*fibers, outside)] == [PENDING] * 3


async def relabelled(fiber: Fiber, root: Container, change: Callable[[], None]) -> bool:
    """Tells whether a change of realms made the fiber run again, or stop."""
    await root.settle()
    before = fiber.target
    change()
    await root.settle()
    return fiber.target is not before


async def test_a_consumer_restarts_only_if_its_binding_changes() -> None:
    """C-033: isolating the key it needs, or another one, and taking that back."""
    async with Container() as root:
        root.provide(TOOL, 1)
        view = root.with_realms({})
        fiber = view.plugin(nothing, inject=[TOOL])
        for realms, runs_anew, state in (
            ({OTHER: None}, False, ACTIVE),
            ({OTHER: None, TOOL: None}, True, PENDING),
            ({TOOL: None}, False, PENDING),
            ({}, True, ACTIVE),
        ):
            change = lambda realms=realms: root.set_realms({view: realms})  # noqa: E731 - each its own
            assert await relabelled(fiber, root, change) is runs_anew
            assert fiber.state is state


async def test_what_a_provider_offers_moves_without_a_reload() -> None:
    """C-034: its consumers stop here and start there, once each."""
    loads: list[str] = []

    def provider(ctx: Context) -> None:
        loads.append("provider")
        ctx.provide(TOOL, 1)

    def consumer(ctx: Context) -> None:
        loads.append(ctx.fiber.name)

    async with Container() as root:
        view = root.with_realms({TOOL: "alpha"})
        moved = view.plugin(provider)
        here, there = (
            root.isolate(TOOL, label).plugin(consumer, name=label, inject=[TOOL])
            for label in ("alpha", "beta")
        )
        await root.settle()
        assert [here.state, there.state] == [ACTIVE, PENDING]
        root.set_realms({view: {TOOL: "beta"}})
        await root.settle()
        assert [moved.state, here.state, there.state] == [ACTIVE, PENDING, ACTIVE]
        assert moved.ctx[TOOL] == 1
    assert loads == ["provider", "alpha", "beta"]


async def test_a_group_that_moves_as_a_whole_restarts_nothing() -> None:
    """C-033: provider and consumer follow the view that both were mounted through."""
    loads: list[str] = []
    async with Container() as root:
        group = root.with_realms({})
        group.plugin(lambda ctx: ctx.provide(TOOL, 1) and None, name="provider")
        fiber = group.isolate(OTHER).plugin(nothing, inject=[TOOL])
        for realms in ({TOOL: "label"}, {TOOL: None}, {}):
            change = lambda realms=realms: root.set_realms({group: realms})  # noqa: E731 - each its own
            assert not await relabelled(fiber, root, change)
        assert loads == []


async def test_what_was_read_before_a_view_got_another_realm_is_looked_up_again() -> None:
    """C-033, C-053: also where no object moved, since it was offered in a realm of its own."""
    async with Container() as root:
        view = root.with_realms({TOOL: "alpha"})
        owner = view.plugin(plugin()(lambda ctx: None))
        await owner.ready()
        owner.ctx.isolate(TOOL, "alpha").provide(TOOL, "there")
        assert owner.ctx[TOOL] == "there"
        root.set_realms({view: {}})
        with pytest.raises(NotInjectedError):
            owner.ctx[TOOL]


async def test_realms_can_be_exchanged_but_not_made_to_collide() -> None:
    """C-034: all at once; two objects that would meet are refused, and nothing changes."""
    async with Container() as root:
        views = [root.with_realms({TOOL: label}) for label in ("alpha", "beta")]
        for number, view in enumerate(views):
            view.provide(TOOL, number)
        fiber = root.isolate(TOOL, "alpha").plugin(nothing, inject=[TOOL])
        await fiber.ready()
        assert fiber.ctx[TOOL] == 0
        root.set_realms({views[0]: {TOOL: "beta"}, views[1]: {TOOL: "alpha"}})
        await root.settle()
        assert fiber.ctx[TOOL] == 1
        before = root.snapshot()
        with pytest.raises(DuplicateServiceError, match='"tool" is already provided by root'):
            root.set_realms({views[0]: {TOOL: "alpha"}})
        assert root.snapshot() == before
        with pytest.raises(ValueError, match="is no view made by `with_realms` or `isolate`"):
            root.set_realms({root: {TOOL: "alpha"}})


async def test_service_events_tell_what_came_and_went() -> None:
    """C-223: others hear of an object when it is offered, and when it is no longer."""
    heard: list[object] = []

    def note(change: ServiceChange) -> None:
        heard.append((change.key, change.realm, change.provider))

    async def provider(ctx: Context) -> None:
        ctx.provide(TOOL, 1)
        await checkpoint()
        assert heard == []

    async with Container() as root:
        root.on("internal/service", note)
        fiber = root.plugin(provider)
        await fiber.ready()
        await fiber.dispose()
        assert heard == [("tool", None, fiber), ("tool", None, None)]
