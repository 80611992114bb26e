"""What the container can say of itself: a snapshot, why a fiber waits, and who waits in circles."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ._effects import Effect
from ._fiber import Fiber
from ._register import Register
from ._services import Binding
from ._states import FAILED, LOADING, PENDING, UNLOADING
from ._targets import closes_cycle, offered_to, providers_of, target_of
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


def explain(kernel: Register, fiber: Fiber) -> Explanation:
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


def snapshot(kernel: Register) -> dict[str, Any]:
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


def why_missing(fiber: Fiber, key: str) -> str:
    """Says why a fiber has no binding for a key that it declares."""
    table = fiber.kernel.table
    slot = fiber.slot(key)
    binding = table.at(slot)
    if binding is not None and offered_to(fiber, key) is not None:
        if closes_cycle(fiber, binding):
            return f"{binding.fiber} depends on it in turn, so the optional key counts as absent"
        return f"{fiber} is {fiber.state.value}"
    if binding is not None:
        if binding.offered:
            return f"its provider {binding.fiber} belongs to the plugin itself"
        return _state_of_provider(binding.fiber)
    declared = [other for other in table.declared(slot) if not other.retiring]
    if declared:
        return _state_of_provider(declared[0])
    if any(other.key == key for other in table):
        return f"waiting for {key}, provided in another realm only"
    installed = ", ".join(fiber.kernel.hint(key))
    hint = f" (installed: {installed})" if installed else ""
    return f"waiting for {key}, provided by no one{hint}"


def missing(fiber: Fiber) -> tuple[tuple[str, str], ...]:
    """Returns the required keys that a fiber waits for, each with the reason."""
    if fiber.committed is not None:
        return ()
    return tuple(
        (key, why_missing(fiber, key))
        for key, required in fiber.needs
        if required and offered_to(fiber, key) is None
    )


def waits_of(fiber: Fiber) -> str:
    """Says what a load or unload waits for."""
    if fiber.state is UNLOADING and fiber.awaits is None:
        bindings = (*fiber.bindings.values(), *fiber.withdrawn)
        users = dict.fromkeys(str(user) for binding in bindings for user in binding.consumers)
        return f"it waits for {', '.join(users)} to come down" if users else "it is being undone"
    awaited = fiber.awaits
    if awaited is None:
        return "its body has not returned"
    why = "".join(f": {reason}" for _, reason in missing(awaited)[:1])
    return f"it waits for {awaited}, which is {awaited.state.value}{why}"


def _state_of_provider(provider: Fiber) -> str:
    why = f": {provider.error}" if provider.state is FAILED and provider.error else ""
    return f"provider {provider} is {provider.state.value}{why}"


def cycle_through(fiber: Fiber) -> tuple[Fiber, ...]:
    """Returns the fibers of a circle that a waiting fiber is part of, or nothing."""
    for cycle in find_cycles(_waiting_with(fiber)):
        if fiber in cycle:
            start = cycle.index(fiber)
            return (*cycle[start:], *cycle[:start])
    return ()


def find_cycles(fibers: Iterable[Fiber]) -> Iterator[tuple[Fiber, ...]]:
    """Yields disjoint circles among fibers, each beginning with its member mounted first."""
    waits = {fiber: set(_blockers(fiber)) for fiber in fibers if fiber.state is PENDING}
    _strip(waits)
    while waits:
        path = [min(waits, key=lambda fiber: fiber.uid)]
        while (following := min(waits[path[-1]], key=lambda fiber: fiber.uid)) not in path:
            path.append(following)
        cycle = path[path.index(following) :]
        start = min(range(len(cycle)), key=lambda index: cycle[index].uid)
        yield (*cycle[start:], *cycle[:start])
        for fiber in cycle:
            del waits[fiber]
        _strip(waits)


def text_of(cycle: Iterable[Fiber]) -> str:
    """Returns `a → b → a`."""
    names = [fiber.name for fiber in cycle]
    return " → ".join((*names, *names[:1]))


def _blockers(fiber: Fiber) -> Iterator[Fiber]:
    """Yields what a waiting fiber waits for: providers that are not up, or its parent."""
    for key, required in fiber.needs:
        if required and offered_to(fiber, key) is None:
            yield from providers_of(fiber, key)
    if fiber.parent is not None and fiber.parent.state is PENDING:
        yield fiber.parent


def _waiting_with(fiber: Fiber) -> Iterable[Fiber]:
    seen: dict[Fiber, None] = {}
    open_ = [fiber]
    while open_:
        node = open_.pop()
        if node not in seen and node.state is PENDING:
            seen[node] = None
            open_ += _blockers(node)
    return seen


def _strip(waits: dict[Fiber, set[Fiber]]) -> None:
    """Removes what waits, in the end, for something that is not part of a circle."""
    blocked: dict[Fiber, list[Fiber]] = {}
    for fiber in waits:
        waits[fiber] = {blocker for blocker in waits[fiber] if blocker in waits}
        for blocker in waits[fiber]:
            blocked.setdefault(blocker, []).append(fiber)
    free = [fiber for fiber, blockers in waits.items() if not blockers]
    while free:
        fiber = free.pop()
        del waits[fiber]
        for waiting in blocked.get(fiber, ()):
            waits[waiting].discard(fiber)
            if not waits[waiting]:
                free.append(waiting)
