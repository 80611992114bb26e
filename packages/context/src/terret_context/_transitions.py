"""Load and unload, written once as step generators, and the target that decides between them."""

from collections.abc import Iterable

from ._bodies import run_body
from ._effects import Effect, Steps
from ._errors import NotProvidedError, RestartBudgetError
from ._fiber import (
    ACTIVE,
    DISPOSED,
    FAILED,
    LOADING,
    PENDING,
    UNLOADING,
    Fiber,
    FiberState,
    Target,
)
from ._services import Binding, Slot


class ChildEffect(Effect):
    """A child fiber in its parent's stack; undoing it disposes the child."""

    __slots__ = ("child",)

    def __init__(self, owner: Fiber, label: str, child: Fiber) -> None:
        self.child = child
        super().__init__(owner, label)

    def async_part(self) -> str | None:
        return self.label

    def _steps(self, errors: list[Exception]) -> Steps:
        yield from retire_all([self], errors)


def target_of(fiber: Fiber) -> Target | None:
    """Returns what the fiber should run with now, or `None`."""
    if fiber.retiring or (fiber.error is not None and fiber.failed_generation == fiber.generation):
        return None
    parent = fiber.parent
    if fiber.target is None and parent is not None and parent.state not in (LOADING, ACTIVE):
        return None
    bindings: list[Binding | None] = []
    for key, required in fiber.needs:
        binding = offered_to(fiber, key)
        if binding is None and required:
            return None
        if binding is not None and not required and closes_cycle(fiber, binding):
            binding = None
        bindings.append(binding)
    if fiber.target is None and any(_still_held(fiber, key) for key in fiber.provides):
        return None
    return fiber.generation, tuple(bindings)


def offered_to(fiber: Fiber, key: str) -> Binding | None:
    """Returns the binding that a fiber may use for a key: offered, and not its own kin's."""
    binding = fiber.kernel.table.at((key, fiber.ctx.realm(key)))
    if binding is None or not binding.offered:
        return None
    provider = binding.fiber
    if provider is fiber or any(above is fiber for above in provider.ancestors()):
        return None
    return binding


def closes_cycle(fiber: Fiber, binding: Binding) -> bool:
    """Whether an optional edge counts as absent because it would close a cycle.

    In a cycle it is the optional edge of the fiber mounted first that does. So the search from the
    provider back to the fiber follows required edges, and optional ones of fibers mounted later.
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
        for key, required in node.needs:
            if required or node.uid > fiber.uid:
                open_ += providers_of(node, key)
    return False


def providers_of(fiber: Fiber, key: str) -> Iterable[Fiber]:
    """Returns the fibers that provide, or declare, the key a fiber needs."""
    slot: Slot = (key, fiber.ctx.realm(key))
    binding = fiber.kernel.table.at(slot)
    declared = fiber.kernel.table.declared(slot)
    return declared if binding is None else (*declared, binding.fiber)


def load(fiber: Fiber, target: Target) -> Steps:
    """One load; it ends ACTIVE, or goes on into the unload that takes it back."""
    fiber.target = target
    fiber.error = None
    keys = (key for key, _ in fiber.needs)
    fiber.committed = dict(zip(keys, target[1], strict=True))
    for binding in target[1]:
        if binding is not None:
            binding.consumers[fiber] = None
    fiber.set_state(LOADING)
    try:
        yield from run_body(fiber)
        _check_provisions(fiber)
    except Exception as error:
        _keep_error(fiber, error)
    except BaseException as error:  # of plain code, such as SystemExit: it ends the container
        fiber.kernel.fatal(error)
        _keep_error(fiber, RuntimeError(f"ended by {type(error).__name__}"))
    if fiber.actor is not None:
        fiber.actor.limit(None)
    if fiber.error is None and target_of(fiber) == target:
        fiber.set_state(ACTIVE)
        for binding in fiber.bindings.values():
            fiber.kernel.touch_dependents(binding)
        return
    yield from unload(fiber)


def unload(fiber: Fiber) -> Steps:
    """Drains the consumers, undoes everything, newest first, and drops the committed view."""
    fiber.teardown_errors = []
    fiber.set_state(UNLOADING)
    fiber.kernel.silence(fiber)
    for binding in tuple(fiber.bindings.values()):
        fiber.kernel.touch_dependents(binding)
    yield from drain(fiber)
    yield from undo_all(fiber, fiber.teardown_errors)
    for used in (fiber.committed or {}).values():
        if used is not None:
            used.consumers.pop(fiber, None)
    fiber.committed = fiber.target = None
    fiber.update_handlers.clear()
    fiber.set_state(_after_unload(fiber))


def drain(fiber: Fiber) -> Steps:
    """Waits until no fiber is bound to anything this one provides."""
    for binding in tuple(fiber.bindings.values()):
        while binding.consumers:
            yield next(iter(binding.consumers))


def undo_all(fiber: Fiber, errors: list[Exception]) -> Steps:
    """Undoes the effect stack: strictly LIFO, attempting all; adjacent children together."""
    while fiber.effects:
        _, effect = fiber.effects.popitem()
        if not isinstance(effect, ChildEffect):
            yield from effect.undo(errors)
            continue
        run = [effect]
        while fiber.effects and isinstance(
            last := next(reversed(fiber.effects.values())), ChildEffect
        ):
            fiber.effects.popitem()
            run.append(last)
        yield from retire_all(run, errors)


def retire_all(children: Iterable[ChildEffect], errors: list[Exception]) -> Steps:
    """Retires children, newest first, and waits for all of them."""
    for effect in children:
        effect.child.check_waiters += 1  # whoever undoes the parent reports the child's failures
        effect.child.retire()
    for effect in children:
        while effect.child.state is not DISPOSED:
            yield effect.child
        errors += effect.child.teardown_errors


def budget_error(fiber: Fiber, now: float, budget: tuple[int, float]) -> RestartBudgetError | None:
    """Counts a load that a dependency caused; returns an error if there were too many."""
    most, seconds = budget
    if fiber.loads is None:
        fiber.loads = []
        return None
    fiber.loads = [at for at in fiber.loads if now - at <= seconds]
    if len(fiber.loads) < most:
        fiber.loads.append(now)
        return None
    causes = [key for key, _ in fiber.needs]
    return RestartBudgetError(str(fiber), most, seconds, causes)


def _still_held(fiber: Fiber, key: str) -> bool:
    binding = fiber.kernel.table.at((key, fiber.ctx.realm(key)))
    return binding is not None and binding.fiber is not fiber


def _check_provisions(fiber: Fiber) -> None:
    made = {key for key, _ in fiber.bindings}
    missing = [key for key in fiber.provides if key not in made]
    if missing and not fiber.retiring:
        raise NotProvidedError(missing, str(fiber))


def _keep_error(fiber: Fiber, error: Exception) -> None:
    if fiber.error is None:
        error.add_note(f"while loading {fiber}")
        fiber.error = error
        fiber.failed_generation = fiber.generation


def _after_unload(fiber: Fiber) -> FiberState:
    if fiber.retiring:
        return DISPOSED
    if fiber.error is not None and fiber.failed_generation == fiber.generation:
        return FAILED
    return PENDING
