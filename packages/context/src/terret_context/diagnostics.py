"""What the container can say of itself: a snapshot, and explanations of single fibers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ._cycles import cycle_through
from ._effects import Effect
from ._fiber import Fiber
from ._kernel import Kernel
from ._reasons import missing, waits_of
from ._services import Binding
from ._states import FAILED, LOADING, PENDING, UNLOADING
from ._targets import offered_to, target_of
from ._tasks import TaskEffect


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a fiber is in its state; `str()` gives the text.

    Attributes:
        fiber: The plugin and its entry.
        state: The state it is in, since `seconds`.
        missing: Each required key that it waits for, with the reason.
        waiting: What its load or unload waits for, or an empty text.
        waiters: Who waits for what it provides.
        error: What made it FAILED.
        cycle: The names of a circle of requirements it is part of, the first one repeated.
        restarts: Seconds since its latest loads, newest first, each with the cause.
    """

    fiber: str
    state: str
    seconds: float
    missing: tuple[tuple[str, str], ...]
    waiting: str
    waiters: tuple[str, ...]
    error: str | None
    cycle: tuple[str, ...]
    restarts: tuple[tuple[float, str], ...]

    def __str__(self) -> str:
        parts = [f"{self.fiber} is {self.state} for {self.seconds:.1f} s"]
        parts += [why for _, why in self.missing]
        if self.waiting:
            parts.append(self.waiting)
        if self.cycle:
            parts.append("cycle: " + " → ".join(self.cycle))
        if self.error:
            parts.append(self.error)
        if self.waiters:
            parts.append("waited for by " + ", ".join(self.waiters))
        if self.restarts:
            listed = ", ".join(f"{ago:.1f} s ago by {cause}" for ago, cause in self.restarts)
            parts.append(f"loaded again {listed}")
        return "; ".join(parts)


def explain(kernel: Kernel, fiber: Fiber) -> Explanation:
    """Says in which state a fiber is, what it misses and why, and who waits for it."""
    now = kernel.clock()
    error = None
    if fiber.state is FAILED and fiber.error is not None:
        error = f"{type(fiber.error).__name__}: {fiber.error}"
    cycle = cycle_through(fiber) if fiber.state is PENDING else ()
    return Explanation(
        fiber=str(fiber),
        state=fiber.state.value,
        seconds=now - fiber.since,
        missing=missing(fiber),
        waiting=waits_of(fiber) if fiber.state in (LOADING, UNLOADING) else "",
        waiters=tuple(str(other) for other in kernel.fibers if _waits_for(other, fiber)),
        error=error,
        cycle=tuple(node.name for node in (*cycle, *cycle[:1])),
        restarts=tuple((now - at, cause) for at, cause, _ in reversed(fiber.restarts)),
    )


def snapshot(kernel: Kernel) -> dict[str, Any]:
    """Returns fibers, bindings, realms and listeners as JSON-able data."""
    return {
        "fibers": [_fiber(fiber) for fiber in kernel.fibers],
        "bindings": [
            {"key": binding.key, "realm": _label(binding), "provider": binding.fiber.uid}
            for binding in kernel.table
        ],
        "realms": sorted({f"{key}/{realm.label}" for key, realm in kernel.table.slots() if realm}),
        "listeners": {name: len(table) for name, table in sorted(kernel.tables.items())},
    }


def _fiber(fiber: Fiber) -> dict[str, Any]:
    target = target_of(fiber)
    return {
        "uid": fiber.uid,
        "plugin": fiber.name,
        "entry": None if fiber.entry is None else str(fiber.entry),
        "state": fiber.state.value,
        "parent": None if fiber.parent is None else fiber.parent.uid,
        "needs": dict(fiber.needs),
        "target": None if target is None else _providers(fiber, target[1]),
        "committed": None if fiber.target is None else _providers(fiber, fiber.target[1]),
        "error": None if fiber.error is None else f"{type(fiber.error).__name__}: {fiber.error}",
        "effects": [_effect(effect) for effect in fiber.effects.values()],
        "tasks": [effect.label for effect in _tasks(fiber.effects.values())],
        "restarts": [restart.cause for restart in fiber.restarts],
    }


def _providers(fiber: Fiber, bindings: tuple[Binding | None, ...]) -> dict[str, int | None]:
    return {
        key: None if binding is None else binding.fiber.uid
        for (key, _), binding in zip(fiber.needs, bindings, strict=True)
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {"label": effect.label, "children": [_effect(child) for child in effect.children]}


def _tasks(effects: Iterable[Effect]) -> Iterator[Effect]:
    for effect in effects:
        if isinstance(effect, TaskEffect):
            yield effect
        yield from _tasks(effect.children)


def _label(binding: Binding) -> str | None:
    return None if binding.realm is None else binding.realm.label


def _waits_for(other: Fiber, fiber: Fiber) -> bool:
    if other.awaits is fiber:
        return True
    slots = {*fiber.bindings, *map(fiber.slot, fiber.provides)}
    return other.committed is None and any(
        required and other.slot(key) in slots and offered_to(other, key) is None
        for key, required in other.needs
    )
