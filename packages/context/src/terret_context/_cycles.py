"""Circles of requirements, whose members can never load."""

from collections.abc import Iterable, Iterator

from ._fiber import Fiber
from ._states import PENDING
from ._targets import offered_to, providers_of


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
