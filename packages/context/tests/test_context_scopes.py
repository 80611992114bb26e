"""Scopes: who sees a registration or hears an event."""

import gc
import weakref
from dataclasses import dataclass
from operator import attrgetter

import anyio
import pytest

from terret_context import (
    AnonymousLayers,
    Container,
    Context,
    DuplicateEntryError,
    Emit,
    FiberState,
    NamedLayers,
    NotInjectedError,
    ScopeLinkError,
    ServiceKey,
    SubjectError,
    link_scope,
    plugin,
    scope_chain,
    scope_of,
)

TOOL: ServiceKey[object] = ServiceKey("tool")


class Agent:
    """A scope key; weakly referable, so that tests see it go."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<agent {self.name}>"


@dataclass(frozen=True)
class Said:
    agent: Agent | None
    text: str


EMIT = Emit[str]("tests/scoped", doc="For the tests of scopes.")
SAID = Emit[Said]("tests/said", subject=attrgetter("agent"), doc="For the tests of scopes.")
DIRECT = Emit[str]("tests/scoped-direct", doc="For the tests of scopes.", direct=True)


async def test_a_scope_is_usable_at_once_and_looks_up_like_its_context() -> None:
    """C-284: also services of an enclosing plugin, and all that root sees."""
    async with Container() as root:
        root.provide(TOOL, 1)
        scoped = root.scope(Agent("a"))
        assert scoped.fiber.state is FiberState.ACTIVE
        assert scoped[TOOL] == 1
        fiber = root.plugin(lambda ctx: None, name="user", inject=[TOOL])
        stranger = root.plugin(lambda ctx: None, name="stranger")
        await root.settle()
        assert fiber.ctx.scope(Agent("b"))[TOOL] == 1
        with pytest.raises(NotInjectedError, match='plugin "scope" uses "tool"'):
            stranger.ctx.scope(Agent("c"))[TOOL]


async def test_tags_are_inherited_and_the_nearest_wins() -> None:
    """C-284: by plugins, isolated views and scopes below."""
    outer, inner = Agent("outer"), Agent("inner")
    keys: list[object] = []

    def body(ctx: Context) -> None:
        keys.append(scope_of(ctx))
        keys.append(scope_of(ctx.isolate(TOOL)))

    async with Container() as root:
        scoped = root.scope(outer)
        assert (scope_of(root), scope_of(scoped), scoped.scope_key) == (None, outer, outer)
        scoped.plugin(body)
        nested = scoped.scope(inner)
        nested.plugin(body)
        await root.settle()
        assert keys == [outer, outer, inner, inner]
        assert tuple(scope_chain(inner)) == (inner, outer)
        assert tuple(scope_chain(None)) == ()


async def test_a_scoped_listener_hears_itself_and_its_descendants() -> None:
    """C-285: never ancestors or siblings; unscoped ones hear all; no subject reaches only these."""
    parent, child, other = Agent("parent"), Agent("child"), Agent("other")
    heard: list[str] = []

    async with Container() as root:
        scopes = {"parent": root.scope(parent)}
        scopes["child"] = scopes["parent"].scope(child)
        scopes["other"] = root.scope(other)
        for name, scope in scopes.items():
            scope.on(EMIT, lambda text, name=name: heard.append(name))  # type: ignore[misc]
        root.on(EMIT, lambda text: heard.append("all"))
        scopes["other"].on(EMIT, lambda text: heard.append("unscoped"), unscoped=True)
        for subject, expected in (
            (child, ["parent", "child", "all", "unscoped"]),
            (parent, ["parent", "all", "unscoped"]),
            (other, ["other", "all", "unscoped"]),
            (None, ["all", "unscoped"]),
            (Agent("stranger"), ["all", "unscoped"]),
        ):
            root.emit(EMIT, "x", subject=subject)
            assert heard == expected
            heard.clear()


async def test_a_table_that_was_dropped_leaves_no_selection_behind() -> None:
    """C-154, C-285: a new listener is heard by a subject that the old table had selected for."""
    agent = Agent("a")
    heard: list[str] = []
    async with Container() as root, Container() as other:
        scoped, elsewhere = root.scope(agent), other.scope(agent)
        for name in "ab":
            effect = scoped.on(EMIT, lambda text, name=name: heard.append(name))  # type: ignore[misc]
            root.emit(EMIT, "x", subject=agent)
            effect.close()
        elsewhere.on(EMIT, lambda text: heard.append("elsewhere"))
        scoped.on(EMIT, lambda text: heard.append("c"))
        other.emit(EMIT, "x", subject=agent)
        root.emit(EMIT, "x", subject=agent)
    assert heard == ["a", "b", "elsewhere", "c"]


async def test_the_extractor_of_an_event_decides_its_subject() -> None:
    """C-287: passing one as well is refused."""
    agent = Agent("a")
    heard: list[str] = []
    async with Container() as root:
        root.scope(agent).on(SAID, lambda said: heard.append(said.text))
        root.emit(SAID, Said(agent, "mine"))
        root.emit(SAID, Said(Agent("b"), "other"))
        root.emit(SAID, Said(None, "nobody"))
        with pytest.raises(SubjectError) as raised:
            root.emit(SAID, Said(agent, "x"), subject=agent)
        assert str(raised.value) == (
            '"tests/said" takes its subject from the payload; do not pass `subject=`'
        )
    assert heard == ["mine"]


async def test_listeners_of_a_direct_event_respect_the_scope_filter() -> None:
    """C-427: for the owner that calls them itself."""
    agent = Agent("a")
    async with Container() as root:
        everybody, scoped = [].append, [].append  # type: ignore[var-annotated]
        root.on(DIRECT, everybody)
        root.scope(agent).on(DIRECT, scoped)
        assert root.listeners(DIRECT, agent) == (everybody, scoped)
        assert root.listeners(DIRECT, agent) is root.listeners(DIRECT, agent)
        assert root.listeners(DIRECT) == (everybody,)


async def test_parent_links_are_bound_once_and_only_the_link_moves_them() -> None:
    """C-207, C-286: a second bond or a cycle raises."""
    a, b, c = Agent("a"), Agent("b"), Agent("c")
    link = link_scope(a, b)
    assert tuple(scope_chain(a)) == (a, b)
    with pytest.raises(ScopeLinkError) as raised:
        link_scope(a, c)
    assert str(raised.value) == (
        "the scope <agent a> has a parent already; move it by its ScopeLink"
    )
    with pytest.raises(ScopeLinkError, match="the scope <agent b> cannot be its own ancestor"):
        link_scope(b, a)
    link.move(c)
    assert tuple(scope_chain(a)) == (a, c)
    with pytest.raises(ScopeLinkError, match="cannot be its own ancestor"):
        link.move(a)
    link.move(None)
    assert tuple(scope_chain(a)) == (a,)


async def test_moving_a_link_moves_what_is_heard() -> None:
    """C-286: selections made before are forgotten."""
    a, b, c = Agent("a"), Agent("b"), Agent("c")
    heard: list[str] = []
    async with Container() as root:
        link = link_scope(a, b)
        scoped = root.scope(a)
        for key, name in ((b, "b"), (c, "c")):
            root.scope(key).on(EMIT, lambda text, name=name: heard.append(name))  # type: ignore[misc]
        root.emit(EMIT, "x", subject=a)
        link.move(c)
        root.emit(EMIT, "x", subject=a)
        with pytest.raises(ScopeLinkError, match="has a parent already"):
            root.scope(a, parent=b)
        assert root.scope(a, parent=c).scope_key is scoped.scope_key
        assert len(root.fibers()) == 5
    assert heard == ["b", "c"]


async def test_registrations_of_a_scope_are_seen_below_it_and_die_with_it() -> None:
    """C-207: nearest wins, and never outside."""
    layers = NamedLayers[str]("note")
    parent, child = Agent("parent"), Agent("child")
    async with Container() as root:
        upper = root.scope(parent)
        lower = upper.scope(child)
        layers.add(upper, "style", "upper")
        assert (layers.get("style"), layers.get("style", child)) == (None, "upper")
        layers.add(lower, "style", "lower")
        assert (layers.get("style", parent), layers.get("style", child)) == ("upper", "lower")
        await lower.fiber.dispose()
        assert layers.get("style", child) is None  # the bond ends with the scope
        await upper.fiber.dispose()
        assert layers.get("style", parent) is None


async def test_nothing_mentions_a_scope_after_its_disposal() -> None:
    """C-288: no registry, table or task; its key can be collected, or used again."""
    agent = Agent("a")
    gone = weakref.ref(agent)
    layers, more = NamedLayers[str]("note"), AnonymousLayers[str]("more")

    @plugin
    def body(ctx: Context) -> None:
        ctx.on(EMIT, lambda text: None)
        layers.add(ctx, "style", "x")
        more.add(ctx, "x")
        ctx.spawn(anyio.sleep_forever)

    async with Container() as root:
        root.on(EMIT, lambda text: None)
        before = root.snapshot()
        for _ in range(2):
            scoped = root.scope(agent)
            fiber = scoped.plugin(body)
            await fiber.ready()
            root.emit(EMIT, "x", subject=agent)
            root.listeners(DIRECT, agent)
            await scoped.fiber.dispose()
            assert root.snapshot() == before
        assert layers.layer(agent) == {}
        del agent, scoped, fiber
        await anyio.sleep(60)  # the event loop lets go of the tasks that ended
        gc.collect()
        assert gone() is None


async def test_the_same_name_twice_in_a_layer_names_the_owner() -> None:
    """C-290: in two scopes it is fine."""
    layers = NamedLayers[str]("tool")
    async with Container() as root:
        fiber = root.plugin(lambda ctx: layers.add(ctx, "bash", "first") and None, name="bash")
        await fiber.ready()
        with pytest.raises(DuplicateEntryError) as raised:
            layers.add(root, "bash", "second")
        assert str(raised.value) == (
            'tool "bash" is already registered by plugin "bash"; '
            "register through the agent's context for a variant of one agent"
        )
        assert not [one for one in root.fiber.effects.values() if one.label == 'tool "bash"']
        agent = Agent("a")
        layers.add(root.scope(agent), "bash", "variant")
        assert (layers.get("bash"), layers.get("bash", agent)) == ("first", "variant")


async def test_a_shadowing_value_keeps_the_position_it_shadows() -> None:
    """C-289: insertion order; undoing it restores the shadowed one."""
    layers = NamedLayers[int]("tool")
    agent, child = Agent("a"), Agent("b")
    async with Container() as root:
        scoped = root.scope(agent)
        nested = scoped.scope(child)
        for number, name in enumerate(("a", "b", "c")):
            layers.add(root, name, number)
        shadow = layers.add(scoped, "b", 10)
        layers.add(scoped, "d", 11)
        layers.add(nested, "a", 20)
        layers.add(nested, "e", 21)
        expected = [("a", 20), ("b", 10), ("c", 2), ("d", 11), ("e", 21)]
        assert list(layers.merged(child).items()) == expected
        assert list(layers.merged().items()) == [("a", 0), ("b", 1), ("c", 2)]
        assert dict(layers.layer(agent)) == {"b": 10, "d": 11}
        shadow.close()
        assert layers.merged(child)["b"] == 1


async def test_the_undo_of_an_old_insertion_leaves_a_newer_one_alone() -> None:
    """C-291: closing it twice is harmless."""
    layers = NamedLayers[int]("tool")
    async with Container() as root:
        old = layers.add(root, "a", 1)
        old.close()
        layers.add(root, "a", 2)
        old.close()
        assert layers.get("a") == 2


@pytest.mark.parametrize("named", [True, False])
async def test_a_changed_that_raises_rolls_the_insertion_back(named: bool) -> None:
    """C-292: on the undo it is a teardown failure."""
    calls: list[tuple[str, ...]] = []
    broken = [True]
    anonymous, names = AnonymousLayers[str]("value"), NamedLayers[str]("value")

    def present() -> tuple[str, ...]:
        return tuple(names.merged()) if named else anonymous.collect()

    def changed() -> None:
        calls.append(present())
        if broken[0]:
            raise ValueError("changed")

    async with Container() as root:

        def add() -> object:
            if named:
                return names.add(root, "a", "a", changed=changed)
            return anonymous.add(root, "a", changed=changed)

        with pytest.raises(ValueError, match="changed"):
            add()
        assert (present(), calls) == ((), [("a",)])
        broken[0] = False
        effect = add()
        broken[0] = True
        with pytest.raises(ExceptionGroup) as raised:
            effect.close()  # type: ignore[attr-defined]  # an effect
        assert [str(error) for error in raised.value.exceptions] == ["changed"]
        assert (present(), calls) == ((), [("a",), ("a",), ()])


async def test_equal_values_without_a_name_are_independent() -> None:
    """C-293: same order as with names."""
    layers = AnonymousLayers[str]("guard")
    agent = Agent("a")
    async with Container() as root:
        scoped = root.scope(agent)
        layers.add(scoped, "scoped")
        first = layers.add(root, "same")
        layers.add(root, "same")
        layers.add(root, "last")
        assert layers.collect(agent) == ("same", "same", "last", "scoped")
        first.close()
        first.close()
        assert layers.collect() == ("same", "last")
        assert layers.layer(agent) == ("scoped",)


async def test_reading_creates_no_layer_and_snapshots_stay() -> None:
    """C-294: an emptied scoped layer is dropped."""
    layers, agent = NamedLayers[int]("tool"), Agent("a")
    async with Container() as root:
        scoped = root.scope(agent)
        assert layers.get("a", agent) is None
        assert layers.layer(agent) == {}
        empty = layers.merged(agent)
        effect = layers.add(scoped, "a", 1)
        full = layers.merged(agent)
        assert (dict(empty), dict(full)) == ({}, {"a": 1})
        effect.close()
        assert dict(full) == {"a": 1}
        assert layers.merged(agent) == {}
        with pytest.raises(TypeError):
            full["b"] = 2  # type: ignore[index]  # snapshots are read-only


async def test_a_scope_survives_a_restart_with_its_key() -> None:
    """C-284: what was registered through it is undone, the scope itself stays."""
    parent, agent = Agent("parent"), Agent("a")
    async with Container() as root:
        scoped = root.scope(parent).scope(agent)
        scoped.on(EMIT, lambda text: None)
        await scoped.fiber.restart()
        assert scoped.fiber.state is FiberState.ACTIVE
        assert root.listeners(EMIT, agent) == ()
        assert tuple(scope_chain(agent)) == (agent, parent)
