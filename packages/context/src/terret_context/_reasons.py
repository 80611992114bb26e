"""Why a fiber waits, in words."""

from ._fiber import Fiber
from ._states import FAILED, UNLOADING
from ._targets import closes_cycle, offered_to


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
    declared = [other for other in table.declared(slot) if not other.ends]
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
