"""The reference model, explored in full for short scripts, and compared with the container."""

from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest

from container_model import Line, World
from container_runs import SCHEDULERS, replay, run
from container_scripts import Ask, Mount, Op, Recipe, Settle, Step

EFFECT = Step("effect")
MOUNTS = {
    "p": Mount("p", Recipe("async", (EFFECT, Step("provide", key="a")), declares=("a",))),
    "q": Mount("q", Recipe("plain", (EFFECT,), service="b", required=("a",))),
    "r": Mount("r", Recipe("generator", (EFFECT,), tail="plain", optional=("b",))),
}
ALPHABET: list[Op] = [
    *MOUNTS.values(),
    *(Ask(what, name) for what in ("retire", "restart") for name in MOUNTS),
]


def scripts(length: int) -> Iterator[tuple[Op, ...]]:
    """Every script of that length that mounts a plugin once, and before it asks anything of it."""
    for ops in product(ALPHABET, repeat=length):
        mounted: list[str] = []
        for op in ops:
            if isinstance(op, Mount):
                mounted.append(op.name)
            elif isinstance(op, Ask) and op.fiber not in mounted:
                break
        else:
            if len(set(mounted)) == len(mounted):
                yield ops


def line_of(op: Op) -> Line:
    if isinstance(op, Mount):
        return Line("mounted", op.name, op)
    assert isinstance(op, Ask)
    return Line(op.what, op.fiber)


@cache
def explore(ops: tuple[Op, ...]) -> tuple[set[object], int]:
    """Takes every way through a script; returns how it may end, and how many worlds there are."""
    lines = [line_of(op) for op in ops]
    open_: list[tuple[World, int]] = [(World(), 0)]
    seen: set[object] = set()
    ends: set[object] = set()
    while open_:
        world, position = open_.pop()
        if (mark := (world.key(), position)) in seen:
            continue
        seen.add(mark)
        check_world(world)
        following = [(after, position) for _, after in world.moves()]
        if position < len(lines):
            line = lines[position]
            refused = Line("refused", line.fiber)
            after = world.accept(line) or world.accept(refused)
            assert after is not None
            following.append((after, position + 1))
        open_ += following
        if not following:
            ends.add(result(world))
    return ends, len(seen)


def check_world(world: World) -> None:
    """PR-S1, PR-S2: whoever runs has what it needs, and from somebody who is still there."""
    for node in world.nodes.values():
        for (_, required), token in zip(node.needs, (node.committed or (0, ()))[1], strict=False):
            assert token is not None or not required
            assert token is None or world.nodes[token.owner].state in ("ACTIVE", "UNLOADING")


def result(world: World) -> object:
    """What can be observed in the end: states, and who uses whose object."""
    return frozenset(
        (node.name, node.state, tuple(t and t.owner for t in (node.committed or (0, ()))[1]))
        for node in world.nodes.values()
    )


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_way_through_a_short_script_ends_alike(length: int) -> None:
    """PR-P1, PR-P2, PR-C1: in the model, whatever the order of events."""
    for ops in scripts(length):
        ends, worlds = explore(ops)
        assert len(ends) == 1, f"{ops} ends in {ends}"
        assert worlds < 20_000


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_container_ends_like_the_model_for_every_short_script(scheduler: str) -> None:
    """PR-C1, PR-C2: and every line on its way is one that the model allows."""
    for ops in (ops for length in (1, 2, 3) for ops in scripts(length)):
        done = run([*ops, Settle()], scheduler=scheduler, ending="exit")  # type: ignore[arg-type]  # one of them
        assert {result(replay(done))} == explore(ops)[0]


def test_the_end_is_that_of_a_container_which_mounts_the_rest_once() -> None:
    """PR-C2: mounts that were retired, and restarts, leave no trace."""
    for ops in scripts(4):
        retired = {op.fiber for op in ops if isinstance(op, Ask) and op.what == "retire"}
        rest = tuple(op for op in ops if isinstance(op, Mount) and op.name not in retired)
        assert explore(ops)[0] == explore(rest)[0]
