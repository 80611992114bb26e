"""Every misuse has its own error, which names its subject and the way out: here as a whole."""

from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any, TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint

import terret_context
from terret_context import (
    Bail,
    Config,
    Container,
    Context,
    Emit,
    NamedLayers,
    Plugin,
    Service,
    ServiceKey,
    TerretError,
    Waterfall,
    link_scope,
    plugin,
)

Misuse: TypeAlias = Callable[[Container], Awaitable[None]]

LLM: ServiceKey[object] = ServiceKey("llm")
STEP = Waterfall[int, int]("misuse/pre-step", doc="Something to wrap.")
VETO = Bail[int, str]("misuse/veto", doc="Something to refuse.")
DIRECT = Emit[int]("misuse/direct", doc="Dispatched by its owner.", direct=True)
OWNED = Emit[int]("misuse/owned", subject=lambda number: None, doc="Knows its subject.")


class Settings(Config):
    timeout: int = 1


async def fail(root: Container, body: Callable[..., object], **options: object) -> None:
    """Mounts a plugin called "bash" with that body and lets its error out."""
    fiber = root.plugin(Plugin(name="bash", body=body, **options))  # type: ignore[arg-type]  # passed on
    try:
        await fiber.ready()
    except Exception as error:
        raise error.__cause__ or error from None


async def undeclared(root: Container) -> None:
    await fail(root, lambda ctx: ctx[LLM])


async def unavailable(root: Container) -> None:
    fiber = root.plugin(Plugin(name="bash", body=lambda ctx: None, inject=("llm",)))
    fiber.ctx[LLM]


async def second_provider(root: Container) -> None:
    root.plugin(Plugin(name="one", body=lambda ctx: None, provides=("llm",)))
    root.provide(LLM, object())


async def not_provided(root: Container) -> None:
    await fail(root, lambda ctx: None, provides=("llm",))


async def inactive(root: Container) -> None:
    fiber = root.plugin(Plugin(name="bash", body=lambda ctx: None))
    await fiber.dispose()
    fiber.ctx.effect(lambda: None, label="tool")


async def own_disposal(root: Container) -> None:
    async def body(ctx: Context) -> None:
        await ctx.fiber.dispose()

    await fail(root, body)


async def no_plugin(root: Container) -> None:
    root.plugin({})


async def wrong_parameters(root: Container) -> None:
    plugin(name="bash", config=Settings)(lambda ctx: None)


async def wrong_api(root: Container) -> None:
    root.plugin(Plugin(name="bash", body=lambda ctx: None, api=">=2"))


async def wrong_config(root: Container) -> None:
    fiber = root.plugin(
        Plugin(name="bash", body=lambda ctx, config: None, config=Settings), {"timout": 1}
    )
    assert fiber.error is not None
    raise fiber.error


async def no_effect(root: Container) -> None:
    root.effect(lambda: 5, label="tool")  # type: ignore[arg-type,return-value,unused-ignore]  # the point


async def async_effect(root: Container) -> None:
    async def undo() -> None:
        pass

    root.effect(lambda: undo, label="tool").close()


async def wrong_mode(root: Container) -> None:
    root.emit("misuse/pre-step", 1)


async def wrong_listener(root: Container) -> None:
    root.on("misuse/pre-step", abs)


async def async_veto(root: Container) -> None:
    async def listener(number: int) -> None:
        pass

    root.on("misuse/veto", listener)


async def unknown_event(root: Container) -> None:
    root.emit("misuse/pre-stpe", 1)


async def subject_twice(root: Container) -> None:
    root.on(OWNED, lambda number: None)
    root.emit(OWNED, 1, subject=root)


async def next_twice(root: Container) -> None:
    async def greedy(number: int, call_next: Callable[[], Awaitable[int]]) -> int:
        return await call_next() + await call_next()

    greedy.__qualname__ = "greedy"
    root.on(STEP, greedy)
    await root.waterfall(STEP, 1, lambda: 1)


async def entry_twice(root: Container) -> None:
    tools = NamedLayers[int]("tool")
    tools.add(root, "bash", 1)
    tools.add(root, "bash", 2)


async def scope_circle(root: Container) -> None:
    link_scope("scope", "scope")


async def reserved_name(root: Container) -> None:
    root.provide("plugin", 1)


async def cached(root: Container) -> None:
    class Slow(Service, key="slow"):
        value = __import__("functools").cached_property(lambda self: 1)


async def other_thread(root: Container) -> None:
    await anyio.to_thread.run_sync(lambda: root.provide(LLM, 1))


async def failed(root: Container) -> None:
    def body(ctx: Context) -> None:
        raise ValueError("no shell")

    await root.plugin(Plugin(name="bash", body=body)).ready()


async def failed_task(root: Container) -> None:
    async def poll() -> None:
        raise ValueError("no shell")

    fiber = root.plugin(Plugin(name="bash", body=lambda ctx: ctx.spawn(poll) and None))
    await fiber.ready()
    await root.settle()
    await fiber.ready()


async def too_many_loads(root: Container) -> None:
    provision = root.provide(LLM, 0)
    fiber = root.plugin(Plugin(name="bash", body=lambda ctx: None, inject=("llm",)))
    for number in range(22):
        await root.settle()
        provision.replace(number)
    await root.settle()
    assert fiber.error is not None
    raise fiber.error


async def late_undo(root: Container) -> None:
    async def hangs() -> None:
        await anyio.sleep_forever()

    fiber = root.plugin(
        Plugin(name="bash", body=lambda ctx: ctx.effect(lambda: hangs, label="shell") and None)
    )
    await fiber.ready()
    try:
        await fiber.dispose(check=True)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


class Shell(Service, key="shell"):
    """A service that is withdrawn."""

    def use(self) -> Context:
        return self.caller


async def withdrawn(root: Container) -> None:
    provider = root.plugin(Plugin(name="bash", body=Shell))
    await provider.ready()
    shell = root[Shell]
    await provider.dispose()
    shell.use()


async def body_without_yield(root: Container) -> None:
    def body(ctx: Context) -> Iterator[None]:
        yield from ()

    await fail(root, body)


async def body_yields_something(root: Container) -> None:
    def body(ctx: Context) -> Iterator[Any]:
        yield 5

    await fail(root, body)


async def two_plugins(root: Container) -> None:
    module = ModuleType("tools")
    for name in ("one", "two"):
        record = Plugin(name=name, body=lambda ctx: None)
        record.body.__module__ = "tools"
        setattr(module, name, record)
    root.plugin(module)


async def no_version(root: Container) -> None:
    root.plugin(Plugin(name="bash", body=lambda ctx: None, api="two"))


async def no_config(root: Container) -> None:
    fiber = root.plugin(Plugin(name="bash", body=lambda ctx: None), {"timeout": 1})
    assert fiber.error is not None
    raise fiber.error


async def entered_plainly(root: Container) -> None:
    root.enter(Manager())  # type: ignore[arg-type]  # the point


async def entered_asynchronously(root: Container) -> None:
    await root.enter_async(PlainManager())  # type: ignore[arg-type]  # the point


class PlainManager:
    def __repr__(self) -> str:
        return "<plain manager>"

    def __enter__(self) -> None: ...
    def __exit__(self, *reason: object) -> None: ...


class Manager:
    def __repr__(self) -> str:
        return "<manager>"

    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *reason: object) -> None: ...


async def second_yield(root: Container) -> None:
    def body() -> Iterator[None]:
        yield
        yield

    effect = root.effect(body, label="tool")
    try:
        effect.close()
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def undo_without_await(root: Container) -> None:
    async def undo() -> None: ...

    effect = root.effect(lambda: lambda: undo(), label="tool")
    try:
        effect.close()
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def dispatched_by_anyone(root: Container) -> None:
    root.emit("misuse/direct", 1)


async def declared_twice(root: Container) -> None:
    Emit[int]("misuse/veto", doc="In another mode.")


async def next_at_once(root: Container) -> None:
    async def greedy(number: int, call_next: Any) -> int:
        async with anyio.create_task_group() as group:
            group.start_soon(call_next)
            group.start_soon(call_next)
        return 1

    greedy.__qualname__ = "greedy"
    root.on(STEP, greedy)
    try:
        await root.waterfall(STEP, 1, checkpoint)  # type: ignore[arg-type]  # its result does not matter
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def second_parent(root: Container) -> None:
    link = link_scope("child", "parent")
    link_scope("child", "uncle")
    link.move(None)


async def end_of_root(root: Container) -> None:
    root.fiber.retire()


async def entered_twice(root: Container) -> None:
    async with root:
        pass


async def slots(root: Container) -> None:
    class Slow(Service, key="slow"):
        __slots__ = ("value",)


async def no_key(root: Container) -> None:
    root.get(5)  # type: ignore[arg-type]  # the point


MESSAGES: dict[Misuse, str] = {
    undeclared: (
        "NotInjectedError: "
        'plugin "bash" uses "llm" without declaring it: add "llm" to `inject`, or '
        'use `ctx.get("llm")` if the plugin can do without'
    ),
    unavailable: (
        "ServiceUnavailableError: "
        '"llm" is not available to plugin "bash": waiting for llm, provided by no '
        "one"
    ),
    second_provider: (
        "DuplicateServiceError: "
        '"llm" is already provided by plugin "one" in this realm; remove one or '
        "isolate it"
    ),
    not_provided: (
        "NotProvidedError: "
        'plugin "bash" declares `provides` "llm" but finished loading without '
        "providing it"
    ),
    inactive: ('InactiveFiberError: cannot register tool: plugin "bash" is DISPOSED'),
    own_disposal: (
        "LifecycleDeadlockError: "
        'this wait can never end: plugin "bash" (load) waits for itself (dispose), '
        'which waits for plugin "bash"; `retire()` only asks, and a task of `ctx.spawn` may wait'
    ),
    no_plugin: (
        "PluginDefinitionError: "
        "{} is no plugin; accepted: a function (ctx) or (ctx, config), plain, async "
        "or with one yield; a Service class"
    ),
    wrong_parameters: (
        'PluginDefinitionError: plugin "bash" has a config model, so its body takes (ctx, config)'
    ),
    wrong_api: ('ApiRangeError: plugin "bash" needs plugin API ">=2", this is 1.0'),
    wrong_config: ('ConfigError: plugin "bash": timout: unknown key (did you mean "timeout"?)'),
    no_effect: (
        "InvalidEffectError: "
        "tool: 5 cannot be undone; use None, a function, a context manager, an "
        "effect, or a generator function of these"
    ),
    async_effect: (
        "AsyncEffectError: "
        "tool of root has an async part (async_effect.<locals>.undo): use `await "
        "effect.aclose()`"
    ),
    wrong_mode: (
        "EventModeError: "
        '"misuse/pre-step" is a waterfall event: use `ctx.waterfall`, not '
        "`ctx.emit`"
    ),
    wrong_listener: (
        "EventModeError: "
        '"misuse/pre-step" is a waterfall event: a listener takes (payload, '
        "call_next), <built-in function abs> does not"
    ),
    async_veto: ('EventModeError: "misuse/veto" is a bail event: listeners are plain functions'),
    unknown_event: (
        "UnknownEventError: "
        'no event "misuse/pre-stpe" (did you mean "misuse/pre-step"?); import the '
        "package that declares it"
    ),
    subject_twice: (
        'SubjectError: "misuse/owned" takes its subject from the payload; do not pass `subject=`'
    ),
    next_twice: (
        'NextCalledTwiceError: greedy called `call_next()` of "misuse/pre-step" a second time; '
        "only an event with `repeat=True` allows it"
    ),
    entry_twice: (
        "DuplicateEntryError: "
        'tool "bash" is already registered by root; register through the agent\'s '
        "context for a variant of one agent"
    ),
    scope_circle: ("ScopeLinkError: the scope 'scope' cannot be its own ancestor"),
    reserved_name: (
        "ReservedNameError: "
        'a service cannot be named "plugin": `Context.plugin` exists; choose '
        "another name"
    ),
    cached: (
        "PluginDefinitionError: "
        "Slow.value is a functools.cached_property: views share one `__dict__`, so "
        "it would keep the value of one caller; use a property"
    ),
    failed: ('PluginFailedError: plugin "bash" failed while loading: ValueError: no shell'),
    failed_task: (
        'PluginFailedError: plugin "bash" failed by its task "poll": ValueError: no shell'
    ),
    too_many_loads: (
        'RestartBudgetError: plugin "bash" was loaded 20 times in 10 s by changes of llm; '
        "`await fiber.restart()` tries again"
    ),
    late_undo: (
        'TeardownTimeoutError: shell of plugin "bash" did not finish in 3 s and was cancelled'
    ),
    withdrawn: (
        'ServiceGoneError: the service "shell" of plugin "bash" was withdrawn; look it up '
        "again through the context"
    ),
    body_without_yield: (
        'PluginDefinitionError: the body of plugin "bash" ended before its `yield`'
    ),
    body_yields_something: (
        'PluginDefinitionError: the body of plugin "bash" yielded 5; a body has one bare '
        "`yield` (use `ctx.effect` to register something)"
    ),
    two_plugins: (
        'PluginDefinitionError: module "tools" has no attribute `plugin`; candidates: '
        "tools:one, tools:two"
    ),
    no_version: ('PluginDefinitionError: plugin "bash": "two" is no version range like ">=1,<2"'),
    no_config: ('ConfigError: plugin "bash": takes no configuration'),
    entered_plainly: (
        "InvalidEffectError: <manager> is no plain context manager; for an async one use "
        "`await ctx.enter_async(manager)`"
    ),
    entered_asynchronously: (
        "InvalidEffectError: <plain manager> is no async context manager; for a plain one use "
        "`ctx.enter(manager)`"
    ),
    second_yield: (
        "InvalidEffectError: tool yielded again in its teardown; one bare `yield` suspends"
    ),
    undo_without_await: (
        "InvalidEffectError: tool: a plain undo returned a coroutine; make it an async function"
    ),
    dispatched_by_anyone: (
        'EventModeError: "misuse/direct" is a direct event: its owner calls `ctx.listeners(event)`'
    ),
    declared_twice: (
        f'EventConflictError: event "misuse/veto" is declared twice: bail by {VETO.owner} and '
        f"emit by {VETO.owner}; rename one of them"
    ),
    next_at_once: (
        'NextCalledTwiceError: greedy called `call_next()` of "misuse/pre-step" while the '
        "first call still ran; await that one before"
    ),
    second_parent: (
        "ScopeLinkError: the scope 'child' has a parent already; move it by its ScopeLink"
    ),
    end_of_root: (
        "ContextError: root lives as long as the block of its container; `await "
        "root.reset()` disposes what it has"
    ),
    entered_twice: ("ContextError: a Container is entered once; make a new one"),
    slots: (
        "PluginDefinitionError: Slow has __slots__, which views would not share; leave them out"
    ),
    no_key: (
        "PluginDefinitionError: 5 is no service key: use a ServiceKey, a Service class with "
        "`key=`, or a name"
    ),
    other_thread: (
        "WrongThreadError: "
        'cannot register provide "llm" from another thread; enter the loop with '
        "`anyio.from_thread.run`"
    ),
}


@pytest.mark.parametrize("misuse", MESSAGES, ids=lambda misuse: misuse.__name__)
async def test_a_misuse_is_told_with_subject_and_way_out(
    misuse: Misuse,
) -> None:
    """C-273, C-274, C-275, C-044, C-053, C-183, C-213, C-239, C-257, C-260, C-401."""
    async with Container(grace=3) as root:
        with pytest.raises(TerretError) as caught:
            await misuse(root)
        assert f"{caught.type.__name__}: {caught.value}" == MESSAGES[misuse]


def test_every_error_is_among_them() -> None:
    """C-273: each public class of an error is raised above, but for the base of all packages."""
    raised = {message.partition(":")[0] for message in MESSAGES.values()}
    errors = (value for value in vars(terret_context).values() if isinstance(value, type))
    public = {error.__name__ for error in errors if issubclass(error, TerretError)}
    assert public - raised == {"TerretError"}


async def test_a_circle_of_requirements_is_told_with_its_members_and_the_way_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C-182, C-224: nobody is there to be raised at, so it is logged."""
    async with Container() as root:
        for name, key in (("hen", "egg"), ("egg", "hen")):
            root.plugin(Plugin(name=name, body=lambda ctx: None, inject=(key,), provides=(name,)))
        await root.settle()
    assert [record.getMessage() for record in caplog.records] == [
        "plugins that wait for each other: hen → egg → hen; make one of the keys optional"
    ]
