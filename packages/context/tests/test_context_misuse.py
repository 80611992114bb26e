"""Every misuse has its own error, which names its subject and the way out: here as a whole."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import pytest

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
        'which waits for plugin "bash"'
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
        'NextCalledTwiceError: greedy called `call_next()` of "misuse/pre-step" a second time'
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
    async with Container() as root:
        with pytest.raises(TerretError) as caught:
            await misuse(root)
        assert f"{caught.type.__name__}: {caught.value}" == MESSAGES[misuse]
