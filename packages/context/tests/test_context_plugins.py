"""Plugins: the record, its forms, and what is refused."""

from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from terret_context import (
    API_VERSION,
    ApiRangeError,
    Config,
    ConfigError,
    Container,
    Context,
    DuplicateServiceError,
    FiberState,
    NotProvidedError,
    Plugin,
    PluginDefinitionError,
    PluginFailedError,
    Service,
    ServiceKey,
    as_plugin,
    plugin,
)

TOOL: ServiceKey[object] = ServiceKey("tool")
OTHER: ServiceKey[object] = ServiceKey("other")
FORMS = "accepted: a function (ctx) or (ctx, config), plain, async or with one yield; a Service"


class Settings(Config):
    level: int = 1
    log_file: str = ""


class Nested(Config):
    inner: Settings = Settings()
    many: tuple[Settings, ...] = ()


async def test_a_function_is_called_once_with_context_and_config() -> None:
    """C-042: with its validated configuration, and as often as it is mounted."""
    calls: list[tuple[Context, Settings]] = []

    @plugin(config=Settings)
    def body(ctx: Context, config: Settings) -> None:
        calls.append((ctx, config))

    async with Container() as root:
        fiber = root.plugin(body, {"level": 3})
        await fiber.ready()
        assert calls == [(fiber.ctx, Settings(level=3))]


def module_with(**members: Any) -> ModuleType:
    module = ModuleType("some_module")
    for name, value in members.items():
        function = getattr(value, "body", value)
        if isinstance(value, Plugin | type):
            function.__module__ = "some_module"
        setattr(module, name, value)
    return module


async def test_modules_and_records_are_mounted_like_their_function() -> None:
    """C-043: the attribute `plugin` of a module; a record as it is."""
    loads: list[str] = []

    def run(ctx: Context) -> None:
        loads.append(ctx.fiber.name)

    record = Plugin(name="named", body=run)
    async with Container() as root:
        for one in (run, record, module_with(plugin=record), module_with(plugin=run)):
            await root.plugin(one).ready()
    assert loads == ["run", "named", "named", "run"]


def test_the_imported_decorator_is_not_taken_for_the_plugin_of_a_module() -> None:
    """C-260: then the one record of the module is it."""
    record = plugin(name="mine")(lambda ctx: None)
    imported = Plugin(name="imported", body=print)
    module = module_with(plugin=plugin, mine=record)
    module.imported = imported  # type: ignore[attr-defined]  # as `from x import imported` does
    assert as_plugin(module) is record


def test_two_records_in_a_module_are_listed() -> None:
    """C-260: neither is taken."""
    records = [plugin(name=name)(lambda ctx: None) for name in "ab"]
    with pytest.raises(PluginDefinitionError) as raised:
        as_plugin(module_with(plugin=plugin, first=records[0], second=records[1]))
    assert str(raised.value) == (
        'module "some_module" has no attribute `plugin`; '
        "candidates: some_module:first, some_module:second"
    )
    with pytest.raises(PluginDefinitionError, match="candidates: none"):
        as_plugin(module_with())


@pytest.mark.parametrize("value", [None, {}, 3, "name", int, object()])
async def test_what_is_no_plugin_is_refused(value: object) -> None:
    """C-044: with the accepted forms."""
    async with Container() as root:
        with pytest.raises(PluginDefinitionError) as raised:
            root.plugin(value)
        assert str(raised.value).startswith(f"{value!r} is no plugin; {FORMS}")
        assert root.fibers() == (root.fiber,)


async def test_names_of_contexts_and_fibers_in_text() -> None:
    """C-046: the nearest named plugin, `root` for none, for every form."""

    class Shelf(Service, key="bookShelf"): ...

    def some_body(ctx: Context) -> None: ...

    async def slow_body(ctx: Context) -> None: ...

    async with Container() as root:
        assert repr(root) == "<Container of root>"
        assert str(root.fiber) == "root"
        shelf, plain, slow = map(root.plugin, (Shelf, some_body, slow_body))
        await root.settle()
        assert repr(shelf.ctx) == '<Context of plugin "book-shelf">'
        assert repr(plain.ctx.isolate(TOOL)) == '<Context of plugin "some-body">'
        assert repr(slow) == f"<Fiber {slow.uid} slow-body ACTIVE>"
        assert repr(root.isolate(TOOL)) == "<Context of root>"


async def test_each_mount_is_an_independent_fiber() -> None:
    """C-047: `root.fibers()` lists the live ones, `root.fibers(p)` those of one plugin."""

    def one(ctx: Context) -> None: ...

    def two(ctx: Context) -> None: ...

    async with Container() as root:
        fibers = [root.plugin(body) for body in (one, two, one)]
        await root.settle()
        assert root.fibers() == (root.fiber, *fibers)
        assert root.fibers(one) == (fibers[0], fibers[2])
        await fibers[0].dispose()
        assert root.fibers(one) == (fibers[2],)
        assert fibers[2].state is FiberState.ACTIVE


Trace = list[str]


def init_plain(self: Any) -> Callable[[], None]:
    self.trace.append("init")
    return lambda: self.trace.append("undone")


async def init_async(self: Any) -> Callable[[], None]:
    return init_plain(self)


def init_generator(self: Any) -> Iterator[None]:
    self.trace.append("init")
    yield
    self.trace.append("undone")


async def init_async_generator(self: Any) -> AsyncIterator[None]:
    self.trace.append("init")
    yield
    self.trace.append("undone")


@pytest.mark.parametrize(
    "init", [init_plain, init_async, init_generator, init_async_generator, None]
)
async def test_init_runs_once_a_load_and_is_undone(init: Callable[..., object] | None) -> None:
    """C-051: what it returns, or runs after its `yield`, is the undo; it may be left out."""
    trace: Trace = []

    class Worker(Service, key="worker"):
        def __init__(self, ctx: Context) -> None:
            super().__init__(ctx)
            self.trace = trace
            trace.append("made")

        if init is not None:
            locals()["init"] = init

    async with Container() as root:
        fiber = root.plugin(Worker)
        await fiber.ready()
        await fiber.restart()
        await fiber.dispose()
    once = ["made", "init", "undone"] if init is not None else ["made"]
    assert trace == once * 2


async def test_a_declared_provision_that_is_not_made_fails_the_plugin() -> None:
    """C-183: at the end of the load."""

    @plugin(provides=[TOOL, OTHER])
    def body(ctx: Context) -> None:
        ctx.provide(OTHER, 1)

    async with Container() as root:
        fiber = root.plugin(body)
        with pytest.raises(PluginFailedError) as raised:
            await fiber.ready()
        assert root.get(OTHER) is None
    assert isinstance(raised.value.__cause__, NotProvidedError)
    assert str(raised.value.__cause__) == (
        'plugin "body" declares `provides` "tool" but finished loading without providing it'
    )


async def test_a_second_provider_is_a_conflict_at_the_mount() -> None:
    """C-183: declared or made by another plugin of the realm; isolated it is none."""

    @plugin(provides=[TOOL])
    def first(ctx: Context) -> None:
        ctx.provide(TOOL, 1)

    def undeclared(ctx: Context) -> None:
        ctx.provide(OTHER, 1)

    async with Container() as root:
        root.plugin(first, entry="harness.yml#first")
        root.plugin(undeclared)
        await root.settle()
        message = (
            r'"tool" is already provided by plugin "first" \(harness.yml#first\) in this realm'
        )
        with pytest.raises(DuplicateServiceError, match=message):
            root.plugin(first)
        with pytest.raises(
            DuplicateServiceError, match='"other" is already provided by plugin "un'
        ):
            root.plugin(plugin(name="second", provides=[OTHER])(lambda ctx: None))
        assert len(root.fibers()) == 3
        await root.isolate(TOOL).plugin(first).ready()


@pytest.mark.parametrize("declared", [True, False])
async def test_an_heir_of_a_provider_that_is_disposed_waits_for_it(declared: bool) -> None:
    """C-264: no conflict is raised, and it loads when the other one has let go of the key."""
    trace: list[str] = []

    async def provider(ctx: Context) -> AsyncIterator[None]:
        trace.append("up")
        ctx.provide(TOOL, 1)
        yield
        trace.append("down")

    async with Container() as root:
        first = root.plugin(plugin(provides=[TOOL] if declared else [])(provider))
        await first.ready()
        first.retire()
        second = root.plugin(plugin(provides=[TOOL])(provider))
        await second.ready()
        assert not declared or trace == ["up", "down", "up"]  # else its key is enough to wait for
        await root.settle()
        assert sorted(trace) == ["down", "up", "up"]
        assert first.state is FiberState.DISPOSED


def test_decorator_attributes_and_class_keywords_give_equal_records() -> None:
    """C-259: however the record is written."""
    options: dict[str, Any] = {
        "config": Settings,
        "inject": [TOOL],
        "optional": [OTHER],
        "provides": ["made"],
        "api": ">=1",
        "cancel_load": True,
    }

    def body(ctx: Context, config: Settings) -> None: ...

    decorated = plugin(**options)(body)
    for name, value in options.items():
        setattr(body, name, value)
    assert as_plugin(body) == decorated

    class Made(Service, key="made", **options):
        def __init__(self, ctx: Context, config: Settings) -> None:
            super().__init__(ctx, config)

    record = as_plugin(Made)
    for option in ("config", "inject", "optional", "provides", "api", "cancel_load"):
        assert getattr(record, option) == getattr(decorated, option)
    assert (record.name, decorated.name) == ("made", "body")
    assert record.inject == ("tool",)


def test_declarations_are_inherited_by_subclasses_of_a_service() -> None:
    """C-171: and added to."""

    class Base(Service, key="base", inject=[TOOL], config=Settings):
        def __init__(self, ctx: Context, config: Settings) -> None:
            super().__init__(ctx, config)

    class Special(Base, inject=[OTHER], optional=["more"]): ...

    record = as_plugin(Special)
    assert (record.inject, record.optional) == (("tool", "other"), ("more",))
    assert (record.provides, record.config, record.name) == (("base",), Settings, "base")
    assert as_plugin(Base).inject == ("tool",)


@pytest.mark.parametrize(("wanted", "fits"), [(">=1,<2", True), (">=2", False), ("<1", False)])
async def test_an_api_range_is_checked_at_the_mount(wanted: str, fits: bool) -> None:
    """C-262: a range that excludes this version is refused."""
    record = plugin(name="picky", api=wanted)(lambda ctx: None)
    async with Container() as root:
        if fits:
            await root.plugin(record).ready()
            return
        with pytest.raises(ApiRangeError) as raised:
            root.plugin(record)
        assert root.fibers() == (root.fiber,)
    assert str(raised.value) == f'plugin "picky" needs plugin API "{wanted}", this is {API_VERSION}'


async def test_a_range_that_is_none_is_a_mistake() -> None:
    """C-262: the range itself is wrong."""
    async with Container() as root:
        with pytest.raises(PluginDefinitionError, match='plugin "odd": "new" is no version range'):
            root.plugin(plugin(name="odd", api="new")(lambda ctx: None))


def test_parameters_and_config_model_belong_together() -> None:
    """C-419: a model and one parameter, or the reverse, are refused; no model, no parameter."""

    def one(ctx: Context) -> None: ...

    def two(ctx: Context, config: Settings) -> None: ...

    class Plain(Service, key="plain"):
        def __init__(self, ctx: Context) -> None:
            super().__init__(ctx)

    assert as_plugin(one).config is None
    assert as_plugin(Plain).config is None
    message = 'plugin "one" has a config model, so its body takes (ctx, config)'
    with pytest.raises(PluginDefinitionError) as raised:
        plugin(config=Settings)(one)
    assert str(raised.value) == message
    with pytest.raises(PluginDefinitionError, match=r"has no config model, so its body takes \(c"):
        as_plugin(two)

    class Wrong(Service, key="wrong"):
        def __init__(self, ctx: Context, config: Settings) -> None: ...

    with pytest.raises(PluginDefinitionError, match=r"has no config model, so its body takes \(c"):
        as_plugin(Wrong)


@pytest.mark.parametrize(
    ("model", "source", "fault"),
    [
        (Settings, {"levle": 1}, 'levle: unknown key (did you mean "level"?)'),
        (Settings, {"logfile": ""}, 'logfile: unknown key (did you mean "logFile"?)'),
        (Settings, {"level": "high"}, "level: expected a whole number, got text"),
        (Settings, {"level": 1.5}, "level: expected a whole number, got a number"),
        (Settings, {"log_file": 3}, "log_file: expected text, got a number: write it in quotes"),
        (Settings, [], "expected a mapping, got a list"),
        (Nested, {"inner": {"levle": 1}}, 'inner.levle: unknown key (did you mean "level"?)'),
        (Nested, {"many": [{}, {"leve": 1}]}, 'many.1.leve: unknown key (did you mean "level"?)'),
    ],
)
def test_config_faults_name_path_reason_and_nearest_key(
    model: type[Config], source: object, fault: str
) -> None:
    """C-163: all faults, and never a value, which may be a secret."""
    record = Plugin(name="mine", body=lambda ctx, config: None, config=model)
    with pytest.raises(ConfigError) as raised:
        record.validate(source)
    assert str(raised.value) == f'plugin "mine": {fault}'
    assert len(raised.value.faults) == 1


def test_a_plugin_without_a_model_takes_no_configuration() -> None:
    """C-163: an empty one is none."""
    record = Plugin(name="mine", body=lambda ctx: None)
    assert record.validate(None) is record.validate({}) is None
    with pytest.raises(ConfigError, match='plugin "mine": takes no configuration'):
        record.validate({"level": 1})


def test_a_config_is_frozen_and_camel_case_outside() -> None:
    """C-165: both spellings are accepted, dumps are camelCase."""
    config = Settings.model_validate({"logFile": "a"})
    assert config == Settings(log_file="a")
    assert config.model_dump() == {"level": 1, "logFile": "a"}
    with pytest.raises(ValueError, match="frozen"):
        config.level = 2


def test_a_service_without_a_key_is_no_plugin() -> None:
    """C-044: it could be provided under no name."""

    class Nameless(Service): ...

    with pytest.raises(PluginDefinitionError, match="is no service key"):
        as_plugin(Nameless)
