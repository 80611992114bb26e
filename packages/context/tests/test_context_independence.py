"""What is independent stays so: of others that come and go, of their realm, and of the way."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from container_machine import recipes
from container_runs import SCHEDULERS, Run, run
from container_scripts import (
    KEYS,
    Ask,
    Close,
    Mount,
    Op,
    Provide,
    Recipe,
    Replace,
    Settle,
    Step,
    Turn,
)
from terret_context import Container
from virtual_time import on_loop

few = settings(max_examples=int(os.environ.get("TERRET_SOAK", "30")), deadline=None)


@few
@given(
    others=st.lists(recipes(tame=True), min_size=1, max_size=3),
    extra=st.sampled_from((Recipe("async", (Step("effect", sleep=1), Step("raise"))), Recipe())),
    at=st.integers(0, 3),
)
def test_a_fiber_that_came_and_went_leaves_the_traces_of_others_alone(
    others: list[Recipe], extra: Recipe, at: int
) -> None:
    """PR-T6, PR-F1: whether it was disposed or has failed."""
    ops: list[Op] = [op for k, one in enumerate(others) for op in (Mount(f"f{k}", one), Settle())]
    without: list[Op] = [*ops, Turn(0, 3.5), Settle()]
    place = min(at * 2, len(ops))
    visit: list[Op] = [Mount("n", extra)]
    with_it: list[Op] = [*ops[:place], *visit, *ops[place:], Turn(0, 3.5), Ask("retire", "n")]
    left, right = run(without, ending="exit"), run([*with_it, Settle()], ending="exit")
    assert traces(left) == traces(right, but=["n"])


def traces(done: Run, but: Sequence[str] = ()) -> dict[str, list[object]]:
    """What each fiber went through, but for some and what they mounted."""
    names = {line.fiber for line in done.ledger} - {"", "root"}
    kept = (name for name in names if name.partition("#")[0] not in but)
    return {name: list(done.trace(name)) for name in kept}


@few
@given(
    ours=st.lists(recipes(tame=True), min_size=1, max_size=3),
    theirs=st.lists(recipes(tame=True), min_size=1, max_size=3),
    order=st.permutations(range(9)),
)
def test_what_is_done_in_one_realm_changes_nothing_in_another(
    ours: list[Recipe], theirs: list[Recipe], order: list[int]
) -> None:
    """PR-S6: mounts, restarts, and a service that comes, changes and goes, in between."""
    elsewhere = frozenset(KEYS)
    ops: list[Op] = [op for k, one in enumerate(ours) for op in (Mount(f"f{k}", one), Settle())]
    others: list[Op] = [Mount(f"n{k}", one, "root", elsewhere) for k, one in enumerate(theirs)]
    others += [Provide("p", "a", isolated=True), Ask("restart", "n0"), Replace("p"), Close("p")]
    left = run([*ops, Turn(0, 3.5), Settle()], ending="exit")
    for place, op in zip(order, others, strict=False):
        ops.insert(min(place, len(ops)), op)
    right = run([*ops, Turn(0, 3.5), Settle()], ending="exit")
    assert traces(left) == traces(right, but=[f"n{k}" for k in range(len(theirs))])


@st.composite
def plugins_in_layers(draw: st.DrawFn) -> list[Recipe]:
    """Plugins that fail nowhere, each of which provides a key and needs some of those before it."""
    made = draw(st.lists(recipes(tame=True), min_size=2, max_size=4))
    return [
        replace(
            one,
            service=KEYS[k],
            required=tuple(key for key in one.required if key in KEYS[:k]),
            optional=tuple(key for key in one.optional if key in KEYS[:k]),
        )
        for k, one in enumerate(made)
    ]


@few
@given(plugins=plugins_in_layers(), data=st.data())
def test_the_end_does_not_depend_on_the_way_there(plugins: list[Recipe], data: Any) -> None:
    """PR-C1, PR-C2: in any order, with pauses, restarts and visitors, as if mounted once."""
    mounts: list[Op] = [Mount(f"f{k}", one) for k, one in enumerate(plugins)]
    once = run([*mounts, Turn(0, 20), Settle()], ending="exit").settled
    script: list[Op] = data.draw(st.permutations(mounts))
    names = st.sampled_from([f"f{k}" for k in range(len(plugins))])
    changes = st.one_of(
        st.builds(Ask, st.sampled_from(("restart", "ready", "settled")), names),
        st.builds(Ask, st.just("update"), names, st.integers(0, 2)),
        st.builds(Turn, st.integers(0, 3), st.sampled_from((0, 0.5, 2))),
        st.just(Settle()),
    )
    for change in data.draw(st.lists(changes, max_size=6)):
        script.insert(data.draw(st.integers(0, len(script))), change)
    script.insert(data.draw(st.integers(0, len(script))), Mount("visitor", Recipe(required=("a",))))
    script += [Ask("retire", "visitor"), Turn(0, 20), Settle()]
    for scheduler in SCHEDULERS:
        done = run(script, scheduler=scheduler, ending="exit")
        assert observed(done.settled) == observed(once), str(done)


def observed(settled: Any, but: Sequence[str] = ()) -> Any:
    """What can be told of the fibers in the end, whichever load their children belong to."""

    def plain(name: str | None) -> str:
        return re.sub(r"#\d+", "#", name or "")

    fibers, bindings, listeners = settled
    states = {
        plain(name): (
            state,
            plain(parent),
            {key: plain(provider) for key, provider in committed.items()},
            sorted(map(plain, labels)) if parent else [],  # those of root are in order of mounting
        )
        for name, (state, parent, committed, labels) in fibers.items()
        if name.partition("#")[0] not in but
    }
    return states, {slot: plain(provider) for slot, provider in bindings.items()}, listeners


@few
@given(count=st.integers(2, 4), order=st.permutations(range(4)), made=recipes(tame=True))
def test_any_fiber_of_many_can_go_and_the_others_stay_as_they_are(
    count: int, order: list[int], made: Recipe
) -> None:
    """PR-T5: and in whatever order they go, all is as before in the end."""
    alike = replace(made, service=None, required=(), optional=())
    ops: list[Op] = [Mount(f"f{k}", alike) for k in range(count)]
    ops += [Turn(0, 20), Settle()]
    states = observed(run(ops, ending="exit").settled)[0]
    gone: list[str] = []
    for k in (k for k in order if k < count):
        gone.append(f"f{k}")
        ops += [Ask("retire", f"f{k}"), Settle()]
        done = run(ops, ending="exit")
        left = {name: one for name, one in states.items() if name.partition("#")[0] not in gone}
        assert observed(done.settled)[0] == left
    assert done.settled == done.before


@few
@given(order=st.permutations(range(6)))
def test_any_effect_of_many_can_go_and_the_others_stay_as_they_are(order: list[int]) -> None:
    """PR-T5: the effects of one fiber, undone by their handles in any order."""

    async def main() -> None:
        applied: set[int] = set()

        def effect(number: int) -> Callable[[], object]:
            applied.add(number)
            return lambda: applied.remove(number)

        async with Container() as root:
            before = root.snapshot()
            handles = [
                root.effect(partial(effect, number), label=str(number)) for number in range(6)
            ]
            for place, number in enumerate(order, 1):
                handles[number].close()
                assert applied == set(order[place:])
                labels = [one["label"] for one in root.snapshot()["fibers"][0]["effects"]]
                assert labels == sorted(map(str, applied))
            assert root.snapshot() == before

    on_loop(main)
