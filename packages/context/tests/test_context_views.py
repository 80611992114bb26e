"""Bound views: how each caller sees a service."""

from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any

import pytest

from terret_context import (
    Container,
    Context,
    Effect,
    PluginDefinitionError,
    Service,
    ServiceGoneError,
    ServiceKey,
    plugin,
)

TOOL: ServiceKey[str] = ServiceKey("tool")


class Counter(Service, key="counter", inject=[TOOL]):
    """A service with all kinds of members."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self.words: list[str] = []
        self.__secret = "private"
        self.seen = [(self.ctx, self.caller)]

    def init(self) -> None:
        self.seen.append((self.ctx, self.caller))

    @property
    def size(self) -> int:
        return len(self.words)

    @property
    def secret(self) -> str:
        return self.__secret

    def add(self, word: str) -> Effect:
        def body() -> Any:
            self.words.append(word)
            return lambda: self.words.remove(word)

        return self.caller.effect(body, label=f'word "{word}"')

    def tool(self) -> str:
        return self.ctx[TOOL]

    def who(self) -> Context:
        return self.caller

    def __call__(self, text: str) -> Context:
        self.add(text)
        return self.who()


@plugin(inject=[Counter])
def user(ctx: Context) -> None: ...


async def counted(root: Container) -> Counter:
    root.provide(TOOL, "hammer")
    await root.plugin(Counter).ready()
    return root[Counter]


async def user_of(root: Container, name: str) -> Context:
    fiber = root.plugin(user, name=name)
    await fiber.ready()
    context: Context = fiber.ctx
    return context


async def test_effects_made_through_the_caller_count_for_the_callers_fiber() -> None:
    """C-057, C-270: the state is shared, the registrations go with each caller."""
    async with Container() as root:
        counter = await counted(root)
        one, two = await user_of(root, "one"), await user_of(root, "two")
        one[Counter].add("a")
        two[Counter].add("b")
        assert counter.words == ["a", "b"]
        assert [effect.label for effect in one.fiber.effects.values()] == ['word "a"']
        await one.fiber.dispose()
        assert counter.words == ["b"]


async def test_the_own_context_finds_the_dependency_of_the_service() -> None:
    """C-057, C-271: also when the caller did not declare it."""
    async with Container() as root:
        await counted(root)
        ctx = await user_of(root, "one")
        assert ctx[Counter].tool() == "hammer"
        with pytest.raises(LookupError):
            ctx[TOOL]


async def test_a_view_shares_everything_with_its_service() -> None:
    """C-269: state, private names, properties, `isinstance`, equality, hash, `origin`."""
    async with Container() as root:
        counter = await counted(root)
        ctx = await user_of(root, "one")
        view = ctx[Counter]
        origin = view.origin
        assert isinstance(view, Counter)
        assert view is not origin
        assert view == origin == counter
        assert view != "text"
        assert len({view, origin, counter}) == 1
        assert (view.secret, view.size) == ("private", 0)
        view.words = ["new"]
        assert (origin.words, view.size) == (["new"], 1)
        assert origin.origin is origin
        assert type(view).__name__ == "Counter"
        assert ctx[Counter] is view
        assert ctx.isolate(TOOL)[Counter] is not view


async def test_own_context_and_caller_are_the_providers_inside_and_on_the_origin() -> None:
    """C-421: in `__init__`, in `init` and on `origin`; one `ctx` in every view."""
    async with Container() as root:
        counter = await counted(root)
        origin = counter.origin
        provider = origin.ctx
        assert origin.seen == [(provider, provider), (provider, provider)]
        assert origin.caller is provider
        view = (await user_of(root, "one"))[Counter]
        assert view.ctx is provider
        assert root[Counter].ctx is provider


async def test_a_callable_service_keeps_the_caller_in_calls_of_its_own() -> None:
    """C-423: through a view, and from one method to the next."""
    async with Container() as root:
        await counted(root)
        ctx = await user_of(root, "one")
        assert ctx[Counter]("word") is ctx
        assert [effect.label for effect in ctx.fiber.effects.values()] == ['word "word"']


async def test_the_caller_of_a_withdrawn_service_is_gone() -> None:
    """C-272: look it up again."""
    async with Container() as root:
        counter = await counted(root)
        ctx = await user_of(root, "one")
        view = ctx[Counter]
        await counter.ctx.fiber.restart()
        with pytest.raises(ServiceGoneError) as raised:
            view.add("late")
        assert str(raised.value) == (
            'the service "counter" of plugin "counter" was withdrawn; '
            "look it up again through the context"
        )
        ctx[Counter].add("new")
        assert root[Counter].words == ["new"]


async def test_a_consumer_uses_its_view_to_the_end_of_its_unload() -> None:
    """C-225, C-272: also when the object was withdrawn by hand."""
    seen: list[object] = []

    class Offered(Service, key="offered"): ...

    @plugin(inject=[Offered])
    async def consumer(ctx: Context) -> AsyncIterator[None]:
        views.append(ctx[Offered])
        yield
        seen.append(views[0].caller is ctx)

    views: list[Offered] = []
    async with Container() as root:
        provision = root.provide(Offered, Offered(root))
        await root.plugin(consumer).ready()
        provision.close()
        await root.settle()
        assert seen == [True]
        with pytest.raises(ServiceGoneError):
            _ = views[0].caller


def test_a_cached_property_is_refused_at_class_creation() -> None:
    """C-422: in the class or one of its bases, naming the attribute."""

    class Mixin:
        @cached_property
        def cost(self) -> int:
            return 1

    with pytest.raises(PluginDefinitionError) as raised:
        type("Costly", (Mixin, Service), {}, key="costly")
    assert str(raised.value) == (
        "Costly.cost is a functools.cached_property: views share one `__dict__`, so it would keep "
        "the value of one caller; use a property"
    )


def test_slots_in_a_service_are_refused_at_class_creation() -> None:
    """C-422: views share the `__dict__` only."""
    with pytest.raises(PluginDefinitionError, match="Slotted has __slots__, which views would not"):
        type("Slotted", (Service,), {"__slots__": ("words",)}, key="slotted")


async def test_other_objects_are_handed_out_as_they_are() -> None:
    """C-269: only a `Service` has views."""
    async with Container() as root:
        thing = object()
        root.provide(ServiceKey[object]("thing"), thing)
        assert root[ServiceKey[object]("thing")] is thing
