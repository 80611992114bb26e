"""Laws of the container that compare one run with another, or with a formula."""

import json
import os
from functools import reduce
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from container_runs import replay, run
from container_scripts import (
    KEYS,
    Mount,
    Recipe,
    Settle,
)
from terret_context import Config, Container, Context, Next, Plugin, Waterfall
from virtual_time import on_loop

WRAP = Waterfall[None, str]("container-laws/wrap", doc="Something to wrap.")
keys = st.sets(st.sampled_from(KEYS), max_size=2).map(lambda chosen: tuple(sorted(chosen)))
few = settings(max_examples=int(os.environ.get("TERRET_SOAK", "40")), deadline=None)


class Settings(Config):
    """A configuration with a list."""

    level: int = 0
    words: tuple[str, ...] = ()
    word_limit: int = 0


@few
@given(edges=st.lists(st.tuples(keys, keys), min_size=1, max_size=5))
def test_fibers_of_a_circle_wait_unless_an_edge_of_it_is_optional(
    edges: list[tuple[tuple[str, ...], tuple[str, ...]]],
) -> None:
    """PR-P3, PR-P2: active are those whose required keys lead to active ones."""
    plugins = {
        key: Recipe(service=key, required=required, optional=optional)
        for key, (required, optional) in zip(KEYS, edges, strict=False)
    }
    done = run([*(Mount(key, recipe) for key, recipe in plugins.items()), Settle()], ending="exit")
    active: set[str] = set()
    for _ in plugins:
        active |= {key for key, recipe in plugins.items() if active.issuperset(recipe.required)}
    states = {name: node.state for name, node in replay(done).nodes.items()}
    assert {name for name in plugins if states[name] == "ACTIVE"} == active
    assert all(states[name] == "PENDING" for name in plugins if name not in active)
    loads = [line.fiber for line in done.ledger if line.what == "LOADING"]
    assert all(loads.count(name) <= 1 + len(plugins) for name in plugins)
    circles = [_members(text) for text in done.told]
    assert len(circles) == len(set(circles)), "a circle is reported once"
    in_circles = {name for name in plugins if name in _needed(plugins, name)}
    assert in_circles >= {name for one in circles for name in one}
    assert all(any(_needed(plugins, name) >= one for one in circles) for name in in_circles)


def _members(report: str) -> frozenset[str]:
    """The plugins that a report of a circle names."""
    named, _, rest = report.removeprefix("plugins that wait for each other: ").partition(";")
    assert rest == " make one of the keys optional"
    return frozenset(named.split(" → "))


def _needed(plugins: dict[str, Recipe], name: str) -> set[str]:
    """The plugins that one of them requires in the end; itself, if it is part of a circle."""
    found: set[str] = set()
    open_ = [name]
    while open_:
        new = set(plugins[open_.pop()].required) & plugins.keys() - found
        found |= new
        open_ += new
    return found


@few
@given(order=st.permutations(range(5)), wraps=st.lists(st.booleans(), min_size=5, max_size=5))
def test_a_waterfall_is_the_fold_of_its_wrappers(order: list[int], wraps: list[bool]) -> None:
    """PR-E1: those put in front later are further out; one that does not go on ends it."""

    async def main() -> None:
        async with Container() as root:
            for number in order:
                root.on(WRAP, listener(number, wraps[number]), prepend=True)
            result = await root.waterfall(WRAP, None, lambda: "inner")
        expected = reduce(
            lambda inner, number: f"{number}({inner})" if wraps[number] else f"{number}!",
            order,
            "inner",
        )
        assert result == expected

    on_loop(main)


def listener(number: int, goes_on: bool) -> Any:
    async def wrap(payload: None, call_next: Next[str]) -> str:
        return f"{number}({await call_next()})" if goes_on else f"{number}!"

    return wrap


@few
@given(level=st.integers(), words=st.lists(st.text(max_size=5), max_size=3), limit=st.integers())
def test_a_configuration_that_is_read_and_given_again_restarts_nothing(
    level: int, words: list[str], limit: int
) -> None:
    """PR-C4: in either spelling, as a model, as data or as JSON."""
    runs: list[object] = []

    def body(ctx: Context, config: Settings) -> None:
        runs.append(config)

    async def main() -> None:
        async with Container() as root:
            fiber = root.plugin(Plugin(name="p", body=body, config=Settings))
            await fiber.update({"level": level, "words": words, "wordLimit": limit})
            wanted = Settings(level=level, words=tuple(words), word_limit=limit)
            assert fiber.config == runs[-1] == wanted
            count = len(runs)
            dumps = (wanted.model_dump(), wanted.model_dump(by_alias=False), wanted)
            for dump in (*dumps, json.loads(wanted.model_dump_json())):
                await fiber.update(dump)
                assert fiber.config == wanted
            again = root.plugin(Plugin(name="q", body=body, config=Settings), dumps[0])
            await again.ready()
            assert runs[count:] == [wanted]

    on_loop(main)


def test_a_handler_of_a_load_that_has_ended_applies_nothing() -> None:
    """C-166, PR-P2: the fiber restarts, so that it runs with the configuration that it has."""
    runs: list[int] = []

    async def main() -> None:
        gate = anyio.Event()

        async def handler(old: object, new: object) -> bool:
            await gate.wait()
            return True

        def body(ctx: Context, config: Settings) -> None:
            runs.append(config.level)
            ctx.on_update(handler)

        async with Container() as root, anyio.create_task_group() as group:
            fiber = root.plugin(Plugin(name="p", body=body, config=Settings))
            await fiber.ready()
            group.start_soon(fiber.update, {"level": 1})
            await fiber.restart()
            gate.set()
        assert runs == [0, 0, 1]

    on_loop(main)
