"""Properties of a ledger that can be told without the reference model."""

from collections import Counter
from collections.abc import Iterator

from container_model import Line
from container_runs import Run
from container_scripts import Mount, Recipe

_UNDONE = ("effect", "listener", "task", "crash")
"""Kinds of steps whose undo writes a line."""


def check_undos(run: Run) -> None:
    """PR-T2, PR-T3, PR-T4: exactly what was applied is undone, once each, newest first."""
    for fiber, recipe in recipes(run).items():
        for lines in episodes(run, fiber):
            made = list(_made(lines, recipe))
            undone = [line.detail for line in lines if line.what == "undone" and _own(line)]
            started = [line.detail for line in lines if line.what == "undo" and _own(line)]
            assert started == undone == made[::-1], f"{fiber}: {made} but {undone}\n{run}"


def check_errors(run: Run) -> None:
    """PR-T3: every error that was raised is reported, and logged at most once."""
    reported = Counter(map(id, run.logged))
    heard = set(reported) | set(map(id, run.delivered))
    lost = [error for error in run.raised if id(error) not in heard]
    twice = [error for error in run.raised if reported[id(error)] > 1]
    assert not lost, f"nobody was told of {lost}\n{run}"
    assert not twice, f"told more than once of {twice}\n{run}"


def check_loads(run: Run) -> None:
    """PR-P1: a fiber is loaded once, and once more for each thing that happened to it."""
    made = recipes(run)
    for fiber, recipe in made.items():
        needed = {key for key, _ in recipe.needs}
        providers = {name for name, other in made.items() if needed & set(_provided(other))}
        inputs = sum(
            line.what in ("provided", "closed", "replaced", "moved")
            or (line.fiber == fiber and line.what in ("restart", "update"))
            or (line.fiber in providers - {fiber} and line.what in ("ACTIVE", "UNLOADING"))
            for line in run.ledger
        )
        loads = sum(line.what == "LOADING" for line in run.trace(fiber))
        assert loads <= 1 + inputs, f"{fiber}: {loads} loads\n{run}"


def check_end(run: Run) -> None:
    """PR-T1, PR-T7: nothing is left of a closed container, and nobody waits for it."""
    assert run.after == ({}, {}, ()), f"left over: {run.after}\n{run}"
    assert not run.stuck, f"still waiting: {run.stuck}\n{run}"
    admitted = [line for line in run.ledger if line.what == "admitted"]
    assert not admitted, f"registered in an unload: {admitted}\n{run}"


def recipes(run: Run) -> dict[str, Recipe]:
    """The plugins of a run by the names of their fibers."""
    mounts = (line.detail for line in run.ledger if line.what == "mounted")
    return {
        mount.name: mount.recipe
        for mount in mounts
        if isinstance(mount, Mount) and mount.recipe is not None
    }


def episodes(run: Run, fiber: str) -> Iterator[list[Line]]:
    """The lines of a fiber, load by load.

    Observers on root hear nothing of the container's exit: there a load begins with the first step
    behind an undo.
    """
    episode: list[Line] = []
    exits = False
    for line in run.ledger:
        exits = exits or line == Line("retire", "root")
        if line.fiber != fiber:
            continue
        undone = bool(episode) and episode[-1].what == "undone"
        if line.what == "LOADING" or (exits and undone and line.what in ("apply", "up")):
            if episode:
                yield episode
            episode = [line]
        elif episode:
            episode.append(line)
    if episode:
        yield episode


def _made(lines: list[Line], recipe: Recipe) -> Iterator[object]:
    """The steps of a load that have to be undone, in the order of being made."""
    up = any(line.what == "up" for line in lines)
    tail = [None] if up and recipe.tail else []
    crashed = {line.detail for line in lines if line.what == "crash"}
    yield from tail if recipe.yields else []
    for line in lines:
        k = line.detail
        if line.what == "apply" and isinstance(k, int) and k not in crashed:
            yield from [k] if recipe.steps[k].kind in _UNDONE else []
    yield from [] if recipe.yields else tail


def _own(line: Line) -> bool:
    """Whether it is about a step of the body or its tail."""
    return line.detail is None or isinstance(line.detail, int)


def _provided(recipe: Recipe) -> Iterator[str]:
    yield from recipe.promised
    yield from (step.key for step in recipe.steps if step.kind == "provide")
