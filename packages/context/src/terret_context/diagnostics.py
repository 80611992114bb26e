"""What the container can say of itself: a snapshot, and explanations of single fibers."""

import time
from dataclasses import dataclass
from typing import Any

from ._effects import Effect
from ._fiber import ACTIVE, FAILED, PENDING, Fiber
from ._kernel import Kernel
from ._lookup import why_missing
from ._transitions import offered_to, providers_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a fiber is in its state."""

    fiber: str
    state: str
    seconds: float
    missing: tuple[tuple[str, str], ...]
    waiters: tuple[str, ...]
    error: str | None
    cycle: tuple[str, ...]

    def __str__(self) -> str:
        parts = [f"{self.fiber} is {self.state} for {self.seconds:.1f} s"]
        parts += [why for _, why in self.missing]
        if self.cycle:
            parts.append("cycle: " + " -> ".join(self.cycle))
        if self.error:
            parts.append(self.error)
        if self.waiters:
            parts.append("waited for by " + ", ".join(self.waiters))
        return "; ".join(parts)


def explain(kernel: Kernel, fiber: Fiber) -> Explanation:
    """Says in which state a fiber is, what it misses and why, and who waits for it."""
    missing = tuple(
        (key, why_missing(fiber, key))
        for key, required in fiber.needs
        if required and fiber.committed is None and offered_to(fiber, key) is None
    )
    waiters = tuple(
        str(other)
        for other in kernel.fibers
        if other.committed is None and any(key in fiber.provides for key, _ in other.needs)
    )
    error = None
    if fiber.state is FAILED and fiber.error is not None:
        error = f"{type(fiber.error).__name__}: {fiber.error}"
    return Explanation(
        str(fiber),
        fiber.state.value,
        max(0.0, time.monotonic() - fiber.since) if fiber.since else 0.0,
        missing,
        waiters,
        error,
        cycle_of(fiber) if fiber.state is PENDING else (),
    )


def cycle_of(fiber: Fiber) -> tuple[str, ...]:
    """Returns the names of a cycle of required keys through a fiber, first one repeated."""
    path: list[Fiber] = []
    seen: set[Fiber] = set()

    def visit(node: Fiber) -> bool:
        path.append(node)
        for key, required in node.needs:
            for provider in providers_of(node, key) if required else ():
                if provider is fiber or (
                    provider.state is not ACTIVE and provider not in seen and enter(provider)
                ):
                    return True
        path.pop()
        return False

    def enter(node: Fiber) -> bool:
        seen.add(node)
        return visit(node)

    return (*(node.name for node in path), fiber.name) if visit(fiber) else ()


def snapshot(kernel: Kernel) -> dict[str, Any]:
    """Returns fibers, bindings and listeners as JSON-able data."""
    return {
        "fibers": [_fiber(fiber) for fiber in kernel.fibers],
        "bindings": [
            {"key": binding.key, "realm": _realm(binding.realm), "provider": binding.fiber.uid}
            for binding in kernel.table
        ],
        "listeners": {name: len(table) for name, table in sorted(kernel.tables.items())},
    }


def _fiber(fiber: Fiber) -> dict[str, Any]:
    return {
        "uid": fiber.uid,
        "plugin": fiber.name,
        "entry": None if fiber.entry is None else str(fiber.entry),
        "state": fiber.state.value,
        "parent": None if fiber.parent is None else fiber.parent.uid,
        "needs": dict(fiber.needs),
        "committed": {
            key: None if binding is None else binding.fiber.uid
            for key, binding in (fiber.committed or {}).items()
        },
        "error": None if fiber.error is None else repr(fiber.error),
        "effects": [_effect(effect) for effect in fiber.effects.values()],
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {"label": effect.label, "children": [_effect(child) for child in effect.children]}


def _realm(realm: object | None) -> str | None:
    return None if realm is None else repr(realm)
