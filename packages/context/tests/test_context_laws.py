"""Laws of the container that compare one run with another, or with a formula."""

from functools import reduce
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from container_machine import recipes
from container_runs import Run, replay, run
from container_scripts import KEYS, Ask, Mount, Op, Recipe, Settle, Step, Turn
from terret_context import Config, Container, Context, Next, Plugin, Waterfall
from virtual_time import virtual_backend

WRAP = Waterfall[None, str]("container-laws/wrap", doc="Something to wrap.")
keys = st.sets(st.sampled_from(KEYS), max_size=2).map(lambda chosen: tuple(sorted(chosen)))
few = settings(max_examples=40, deadline=None)


class Settings(Config):
    """A configuration with a list."""

    level: int = 0
    words: tuple[str, ...] = ()


def on_loop(main: Any) -> None:
    name, options = virtual_backend("asyncio")
    anyio.run(main, backend=name, backend_options=options)


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


@few
@given(
    others=st.lists(recipes(tame=True), min_size=1, max_size=3),
    extra=st.sampled_from((Recipe("async", (Step("effect", sleep=1), Step("raise"))), Recipe())),
    at=st.integers(0, 3),
)
def test_a_fiber_that_came_and_went_leaves_the_traces_of_others_alone(
    others: list[Recipe], extra: Recipe, at: int
) -> None:
    """PR-T5, PR-T6, PR-F1: whether it was disposed or has failed."""
    ops: list[Op] = [op for k, one in enumerate(others) for op in (Mount(f"f{k}", one), Settle())]
    without: list[Op] = [*ops, Turn(0, 3.5), Settle()]
    place = min(at * 2, len(ops))
    visit: list[Op] = [Mount("n", extra)]
    with_it: list[Op] = [*ops[:place], *visit, *ops[place:], Turn(0, 3.5), Ask("retire", "n")]
    left, right = run(without, ending="exit"), run([*with_it, Settle()], ending="exit")
    assert traces(left) == traces(right, but="n")


def traces(done: Run, but: str = "") -> dict[str, list[object]]:
    """What each fiber went through, without the lines of the container itself."""
    names = {line.fiber for line in done.ledger} - {but, "", "root"}
    return {name: list(done.trace(name)) for name in names}


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
@given(level=st.integers(), words=st.lists(st.text(max_size=5), max_size=3))
def test_a_configuration_that_is_read_and_given_again_restarts_nothing(
    level: int, words: list[str]
) -> None:
    """PR-C4: in either spelling, as a model or as data."""
    runs: list[object] = []

    def body(ctx: Context, config: Settings) -> None:
        runs.append(config)

    async def main() -> None:
        async with Container() as root:
            fiber = root.plugin(Plugin(name="p", body=body, config=Settings))
            await fiber.update({"level": level, "words": words})
            wanted = Settings(level=level, words=tuple(words))
            assert fiber.config == wanted
            count = len(runs)
            await fiber.update(wanted.model_dump())
            await fiber.update(wanted)
            assert len(runs) == count
            assert runs[-1] == wanted

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
