"""Which transition the running code belongs to, and waits that could never end."""

from contextvars import ContextVar
from typing import NamedTuple, Protocol

from ._errors import LifecycleDeadlockError


class Node(Protocol):
    """A fiber, as far as waiting is concerned."""

    @property
    def parent(self) -> "Node | None": ...
    @property
    def transition(self) -> object | None: ...


class Transition(NamedTuple):
    """A load or unload of one fiber."""

    fiber: Node
    kind: str


TRANSITION: ContextVar[Transition | None] = ContextVar("terret_transition", default=None)


def current_transition() -> Transition | None:
    """Returns the transition of the running code, unless it has ended meanwhile."""
    current = TRANSITION.get()
    return None if current is None or current.fiber.transition is None else current


def refuse_circular_wait(awaited: Node, what: str) -> None:
    """Raises `LifecycleDeadlockError` if the running transition is part of what it waits for."""
    current = current_transition()
    if current is None:
        return
    node: Node | None = current.fiber
    while node is not None:
        if node is awaited:
            relation = "itself" if awaited is current.fiber else f"its ancestor {awaited}"
            raise LifecycleDeadlockError(
                f"{current.fiber} ({current.kind}) waits for {relation} ({what}), "
                f"which waits for {current.fiber}"
            )
        node = node.parent
