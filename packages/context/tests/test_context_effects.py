"""Plain effects: what `ctx.effect` and `ctx.enter` own, and how it is undone."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from terret_context import (
    AsyncEffectError,
    Container,
    Context,
    Effect,
    FiberState,
    InvalidEffectError,
    plugin,
)

ACCEPTED = "use None, a function, a context manager, an effect, or a generator function of these"


def failing(text: str) -> Callable[[], None]:
    def fail() -> None:
        raise ValueError(text)

    return fail


def leaves(group: ExceptionGroup[Exception]) -> list[str]:
    return [str(error) for error in group.exceptions]


async def test_an_effect_is_listed_and_undone_once_with_its_fiber() -> None:
    """C-007: listed in the effect tree; the undo runs once, a second disposal does nothing."""
    trace: list[str] = []

    def body(ctx: Context) -> None:
        ctx.effect(lambda: lambda: trace.append("undone"), label="number one")

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        (row,) = (one for one in root.snapshot()["fibers"] if one["plugin"] == "body")
        assert [effect["label"] for effect in row["effects"]] == ["number one"]
        await fiber.dispose()
        await fiber.dispose()
    assert trace == ["undone"]


async def test_an_effect_of_root_is_anonymous_and_closed_once() -> None:
    """C-008: default label, idempotent close."""
    trace: list[str] = []
    async with Container() as root:
        effect = root.effect(lambda: lambda: trace.append("undone"))
        assert (effect.label, effect.done) == ("anonymous", False)
        effect.close()
        effect.close()
        await effect.aclose()
        assert effect.done
    assert trace == ["undone"]


async def test_yielded_handles_are_children_of_the_outer_effect_only() -> None:
    """C-009: handles move into the outer effect, functions have no node; undo in reverse."""
    trace: list[str] = []

    async with Container() as root:

        def steps() -> Iterator[object]:
            yield root.effect(lambda: lambda: trace.append("first"), label="first")
            yield lambda: trace.append("second")
            yield root.effect(lambda: lambda: trace.append("third"), label="third")

        outer = root.effect(steps, label="outer")
        assert [child.label for child in outer.children] == ["first", "third"]
        assert [effect.label for effect in root.fiber.effects.values()] == ["outer"]
        outer.close()
        outer.close()
        assert trace == ["third", "second", "first"]
        assert all(child.done for child in outer.children)


async def test_a_plain_setup_error_is_raised_and_leaves_nothing() -> None:
    """C-016: raised to the caller, nothing is left to undo."""
    async with Container() as root:
        with pytest.raises(ValueError, match="no"):
            root.effect(failing("no"))
        assert not root.fiber.effects


async def test_steps_before_a_failing_one_are_undone_before_the_error_is_raised() -> None:
    """C-017, C-173: undone as far as it got; the effect has left the stack."""
    trace: list[str] = []

    def steps() -> Iterator[object]:
        yield lambda: trace.append("undone")
        raise ValueError("second step")

    async with Container() as root:
        with pytest.raises(ValueError, match="second step"):
            root.effect(steps)
        assert trace == ["undone"]
        assert not root.fiber.effects


async def test_a_failing_undo_of_a_failed_setup_is_noted_on_its_error() -> None:
    """C-017: the error of the setup is raised, that of the undo is a note."""

    def steps() -> Iterator[object]:
        yield failing("undo")
        raise ValueError("setup")

    async with Container() as root:
        with pytest.raises(ValueError, match="setup") as raised:
            root.effect(steps)
    assert raised.value.__notes__ == ["undoing it failed too: ValueError: undo"]


async def test_a_composite_undo_attempts_everything_and_raises_one_group() -> None:
    """C-174, C-209, C-240: all steps in reverse, all failures in one flat group."""
    trace: list[str] = []

    async with Container() as root:

        def steps() -> Iterator[object]:
            yield failing("oldest")
            yield lambda: trace.append("undone")
            yield root.effect(lambda: failing("inner"), label="inner")
            yield failing("newest")

        effect = root.effect(steps, label="composite")
        with pytest.raises(ExceptionGroup) as raised:
            effect.close()
        effect.close()
    assert trace == ["undone"]
    assert raised.value.message == "undoing composite"
    assert leaves(raised.value) == ["newest", "inner", "oldest"]
    notes = [error.__notes__ for error in raised.value.exceptions]
    assert notes[1] == ["while undoing inner of root"]


async def test_aclose_raises_the_failures_of_any_effect_as_one_group() -> None:
    """C-240: `aclose()` does for every effect what `close()` does for a plain one."""
    async with Container() as root:
        effect = root.effect(lambda: failing("undo"), label="plain")
        with pytest.raises(ExceptionGroup, match="undoing plain") as raised:
            await effect.aclose()
        await effect.aclose()
    assert leaves(raised.value) == ["undo"]


async def test_a_suspended_generator_effect_ends_after_its_steps_are_undone() -> None:
    """C-009: the code after the one bare `yield` runs last."""
    trace: list[str] = []

    def steps() -> Iterator[Any]:
        trace.append("set up")
        yield lambda: trace.append("undone")
        yield
        trace.append("after")

    async with Container() as root:
        effect = root.effect(steps)
        assert trace == ["set up"]
        effect.close()
    assert trace == ["set up", "undone", "after"]


async def test_a_generator_effect_that_suspends_twice_is_closed_and_reported() -> None:
    """C-261: only one bare `yield` suspends an effect."""

    def steps() -> Iterator[Any]:
        yield
        yield

    async with Container() as root:
        effect = root.effect(steps, label="twice")
        with pytest.raises(ExceptionGroup) as raised:
            effect.close()
    assert leaves(raised.value) == [
        "twice yielded again in its teardown; one bare `yield` suspends"
    ]


@pytest.mark.parametrize("value", [3, "text", ["list"]])
async def test_a_value_that_cannot_be_undone_is_refused_by_name(value: object) -> None:
    """C-239: the error names the value and what is accepted."""
    async with Container() as root:
        with pytest.raises(InvalidEffectError) as raised:
            root.effect(lambda: value, label="wrong")
        assert str(raised.value) == f"wrong: {value!r} cannot be undone; {ACCEPTED}"
        assert not root.fiber.effects


async def test_an_effect_that_gives_a_manager_enters_it() -> None:
    """C-007: a manager is entered at once and left at the undo."""
    trace: list[str] = []

    @contextmanager
    def manager() -> Iterator[None]:
        trace.append("in")
        yield
        trace.append("out")

    async with Container() as root:
        by_function, given = root.effect(manager), root.effect(manager())
        assert trace == ["in", "in"]
        by_function.close()
        given.close()
    assert trace == ["in", "in", "out", "out"]


async def test_enter_returns_the_value_and_leaves_in_lifo_place() -> None:
    """C-402: entered at once; exit in the LIFO place of the call."""
    trace: list[str] = []

    @contextmanager
    def manager() -> Iterator[str]:
        yield "value"
        trace.append("manager")

    def body(ctx: Context) -> None:
        ctx.effect(lambda: lambda: trace.append("older"))
        assert ctx.enter(manager()) == "value"
        ctx.effect(lambda: lambda: trace.append("newer"))

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.dispose()
    assert trace == ["newer", "manager", "older"]


async def test_a_manager_that_fails_to_open_leaves_nothing() -> None:
    """C-402: the error of `__enter__` is raised to the caller."""

    @contextmanager
    def manager() -> Iterator[None]:
        raise OSError("locked")
        yield

    async with Container() as root:
        with pytest.raises(OSError, match="locked"):
            root.enter(manager())
        assert not root.fiber.effects


async def test_an_owner_undoes_its_effects_newest_first_one_at_a_time() -> None:
    """C-208: one after the other, each awaited before the next."""
    trace: list[str] = []

    def undo(name: str) -> Callable[[], object]:
        async def run() -> None:
            trace.append(f"{name} begins")
            await anyio.sleep(1)
            trace.append(f"{name} ends")

        return run

    def body(ctx: Context) -> None:
        for name in "abc":
            ctx.effect(lambda name=name: undo(name))

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.ready()
        await fiber.dispose()
    assert trace == [f"{name} {what}" for name in "cba" for what in ("begins", "ends")]


async def test_close_refuses_an_async_step_by_name_and_undoes_nothing() -> None:
    """C-401: `AsyncEffectError` names the part; `aclose()` then works."""
    trace: list[str] = []

    async def drain() -> None:
        trace.append("drained")

    def steps() -> Iterator[object]:
        yield lambda: trace.append("plain")
        yield drain

    async with Container() as root:
        effect = root.effect(steps, label="mixed")
        with pytest.raises(AsyncEffectError) as raised:
            effect.close()
        assert re.fullmatch(
            r"mixed of root has an async part \(.*drain\): use `await effect.aclose\(\)`",
            str(raised.value),
        )
        assert (trace, effect.done) == ([], False)
        await effect.aclose()
    assert trace == ["drained", "plain"]


async def test_close_refuses_a_child_fiber_and_aclose_disposes_it() -> None:
    """C-401: a child fiber is an async part of the effect that took it over."""

    def child(ctx: Context) -> None:
        pass

    async with Container() as root:

        def steps() -> Iterator[object]:
            yield root.plugin(child)

        effect = root.effect(steps, label="outer")
        (fiber,) = root.fibers(child)
        await fiber.ready()
        with pytest.raises(AsyncEffectError, match=r'outer of root has an async part \(plugin "c'):
            effect.close()
        await effect.aclose()
        assert fiber.state is FiberState.DISPOSED
        assert not root.fibers(child)


async def test_an_undo_that_returns_a_coroutine_is_reported() -> None:
    """C-239: a plain function that gives a coroutine is no undo."""

    async def late() -> None: ...

    async with Container() as root:
        effect = root.effect(lambda: lambda: late(), label="sly")
        with pytest.raises(ExceptionGroup) as raised:
            effect.close()
    assert leaves(raised.value) == [
        "sly: a plain undo returned a coroutine; make it an async function"
    ]


async def test_an_effect_is_owned_before_its_body_runs() -> None:
    """C-172: a restart triggered inside of the body waits for setup and undo."""
    trace: list[str] = []

    @plugin
    def body(ctx: Context) -> None:
        def setup() -> Callable[[], None]:
            owned = [effect.label for effect in ctx.fiber.effects.values()]
            trace.append(f"owned {owned}")
            if len(trace) == 1:
                ctx.fiber.retire()
            trace.append("set up")
            return lambda: trace.append("undone")

        ctx.effect(setup, label="mine")

    async with Container() as root:
        fiber = root.plugin(body)
        await fiber.settled()
        await fiber.dispose()
    assert trace == ["owned ['mine']", "set up", "undone"]


async def test_closing_an_older_effect_leaves_the_others() -> None:
    """C-007: effects are independent of each other."""
    trace: list[str] = []
    async with Container() as root:
        effects: list[Effect] = [
            root.effect(lambda n=n: lambda: trace.append(n), label=n) for n in "abc"
        ]
        effects[1].close()
        assert trace == ["b"]
    assert trace == ["b", "c", "a"]
