"""Load and unload, written once as step generators."""

from collections.abc import Iterable, Iterator

from ._bodies import run_body
from ._dispatch import silence
from ._effects import Effect, Steps
from ._errors import NotProvidedError, RestartBudgetError
from ._fiber import Fiber, Target
from ._states import ACTIVE, DISPOSED, FAILED, LOADING, PENDING, UNLOADING, FiberState, Restart
from ._targets import changed_keys, target_of

_KEPT_RESTARTS = 10


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


def load(fiber: Fiber, target: Target) -> Steps:
    """One load; it ends ACTIVE, or goes on into the unload that takes it back."""
    fiber.target = target
    fiber.committed = {
        key: binding for (key, _), binding in zip(fiber.needs, target[1], strict=True)
    }
    for binding in target[1]:
        if binding is not None:
            binding.consumers[fiber] = None
    fiber.set_state(LOADING)
    fiber.kernel.announce(fiber)  # the error of an earlier load, if nobody has been told of it
    fiber.error = None
    if fiber.effects:
        for effect in children_of(fiber.effects.values()):  # those mounted while it was PENDING
            fiber.kernel.touch(effect.child)
    landed = False
    try:
        landed = yield from run_body(fiber)
        if landed and fiber.provides:
            _check_provisions(fiber)
    except Exception as error:
        _keep_error(fiber, error)
    except BaseException as error:  # of plain code, such as SystemExit
        _keep_error(fiber, fiber.kernel.fatal(error))
    if fiber.actor is not None:
        fiber.actor.limit(None)
    if landed and fiber.error is None and target_of(fiber) == target:
        fiber.set_state(ACTIVE)
        for binding in fiber.bindings.values():
            fiber.kernel.touch_dependents(binding)
    else:
        yield from unload(fiber)


def unload(fiber: Fiber) -> Steps:
    """Drains the consumers, undoes everything, newest first, and drops the committed view."""
    if fiber.needs and not fiber.retiring and not fiber.has_failed:
        fiber.cause = ", ".join(changed_keys(fiber))
    fiber.set_state(UNLOADING)
    if fiber.effects:
        silence(fiber.effects.values())
    for binding in tuple(fiber.bindings.values()):
        fiber.kernel.touch_dependents(binding)
    if fiber.bindings or fiber.withdrawn:
        yield from drain(fiber)
    if fiber.effects:
        yield from undo_all(fiber, fiber.failures)
    for used in (fiber.committed or {}).values():
        if used is not None:
            used.consumers.pop(fiber, None)
    fiber.committed = fiber.target = None
    fiber.update_handlers.clear()
    fiber.kernel.forget_lookups()
    state = _after_unload(fiber)
    if state is not None:
        fiber.set_state(state)


def drain(fiber: Fiber) -> Steps:
    """Waits until no fiber is bound to anything that this one provides, or did."""
    for binding in (*fiber.bindings.values(), *fiber.withdrawn):
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
    """Retires children, newest first, waits for all of them and takes over their failures."""
    for effect in children:
        effect.child.collectors += 1
        effect.child.retire()
    for effect in children:
        while effect.child.state is not DISPOSED:
            yield effect.child
        errors += effect.child.failures


def children_of(effects: Iterable[Effect]) -> Iterator[ChildEffect]:
    """Yields the child fibers among effects, also those that are part of another effect."""
    for effect in tuple(effects):
        if isinstance(effect, ChildEffect):
            yield effect
        else:
            yield from children_of(effect.children)


def count_load(fiber: Fiber, now: float, budget: tuple[int, float]) -> RestartBudgetError | None:
    """Records why a fiber is loaded again; returns an error if dependencies did so too often."""
    most, seconds = budget
    if not fiber.loaded:
        fiber.loaded, fiber.request = True, ""
        return None
    recent: list[str] = []
    for restart in () if fiber.request else reversed(fiber.restarts):
        if restart.requested or now - restart.at > seconds:
            break
        recent.insert(0, restart.cause)
    if len(recent) >= most:
        return RestartBudgetError(str(fiber), most, seconds, recent)
    restart = Restart(now, fiber.request or fiber.cause, requested=bool(fiber.request))
    fiber.restarts = (*fiber.restarts, restart)[-max(most, _KEPT_RESTARTS) :]
    fiber.request = ""
    return None


def _check_provisions(fiber: Fiber) -> None:
    made = {key for key, _ in fiber.bindings}
    missing = [key for key in fiber.provides if key not in made]
    if missing and not fiber.retiring:
        raise NotProvidedError(missing, str(fiber))


def _keep_error(fiber: Fiber, error: Exception) -> None:
    error.add_note(f"while loading {fiber}")
    if fiber.error is not None:  # of one of its tasks
        fiber.kernel.report(fiber, error, "loading")
    else:
        fiber.take_error(error, "loading")


def _after_unload(fiber: Fiber) -> FiberState | None:
    """Returns the next state, or `None` if a load follows when it is its turn."""
    if fiber.retiring:
        return DISPOSED
    if fiber.has_failed:
        return FAILED
    return PENDING if fiber.kernel.batching or target_of(fiber) is None else None
