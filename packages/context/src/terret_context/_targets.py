"""What a fiber should run with now."""

from collections.abc import Iterable, Iterator

from ._fiber import Fiber, Target
from ._services import Binding
from ._states import ACTIVE, LOADING


def target_of(fiber: Fiber) -> Target | None:
    """Returns generation and bindings that a fiber should run with, or `None`."""
    if fiber.retiring or fiber.has_failed:
        return None
    if fiber.target is None:  # what gates loads only
        parent = fiber.parent
        if parent is not None and parent.state is not ACTIVE and parent.state is not LOADING:
            return None
        if fiber.provides and any(_still_held(fiber, key) for key in fiber.provides):
            return None
    bindings: list[Binding | None] = []
    for key, required in fiber.needs:
        binding = wanted(fiber, key, required=required)
        if binding is None and required:
            return None
        bindings.append(binding)
    return fiber.generation, tuple(bindings)


def wanted(fiber: Fiber, key: str, *, required: bool) -> Binding | None:
    """Returns the binding that a fiber should use for a key that it declares."""
    binding = offered_to(fiber, key)
    if binding is not None and not required and closes_cycle(fiber, binding):
        return None
    return binding


def changed_keys(fiber: Fiber) -> Iterator[str]:
    """Yields the keys for which a loaded fiber would get another binding now."""
    assert fiber.target is not None
    for (key, required), binding in zip(fiber.needs, fiber.target[1], strict=True):
        if wanted(fiber, key, required=required) is not binding:
            yield key


def offered_to(fiber: Fiber, key: str) -> Binding | None:
    """Returns the binding that a fiber may use for a key: offered, and not its own kin's."""
    binding = fiber.kernel.table.at(fiber.slot(key))
    if binding is None or not binding.offered:
        return None
    provider = binding.fiber
    if provider is fiber or any(above is fiber for above in provider.ancestors()):
        return None
    return binding


def closes_cycle(fiber: Fiber, binding: Binding) -> bool:
    """Whether an optional edge counts as absent because it would close a cycle.

    In a cycle it is the optional edge of the fiber mounted first that does. So the search from the
    provider back to the fiber follows required edges, and optional ones of fibers mounted later. A
    child goes with its parent; and what was once provided by somebody will be so again.
    """
    seen: set[Fiber] = set()
    open_: list[Fiber] = [binding.fiber]
    while open_:
        node = open_.pop()
        if node is fiber:
            return True
        if node in seen:
            continue
        seen.add(node)
        if node.parent is not None:
            open_.append(node.parent)
        for key, required in node.needs:
            if required or node.uid > fiber.uid:
                givers = fiber.kernel.table.givers(node.slot(key))
                open_ += [giver for giver in givers if node not in giver.ancestors()]
    return False


def providers_of(fiber: Fiber, key: str) -> Iterable[Fiber]:
    """Returns the fibers that provide, or declare, the key a fiber needs."""
    slot = fiber.slot(key)
    binding = fiber.kernel.table.at(slot)
    declared = fiber.kernel.table.declared(slot)
    return declared if binding is None else (*declared, binding.fiber)


def _still_held(fiber: Fiber, key: str) -> bool:
    """Whether a provider that is being disposed has a key that this fiber is to provide."""
    slot = fiber.slot(key)
    binding = fiber.kernel.table.at(slot)
    return (binding is not None and binding.fiber is not fiber) or any(
        other is not fiber and other.retiring for other in fiber.kernel.table.declared(slot)
    )
