"""Fibers: running instances of plugins."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context as Variables
from contextvars import copy_context
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Protocol

import anyio
from anyio.lowlevel import checkpoint

from ._effects import Effect, Host, Steps, flatten
from ._errors import ConfigError, ConfigFault, ContextError, InactiveFiberError, PluginFailedError
from ._models import BaseModel
from ._plugins import Plugin
from ._realms import Slot
from ._services import Binding, BindingTable
from ._states import ACTIVE, DISPOSED, FAILED, LOADING, PENDING, UNLOADING, FiberState, Restart
from ._waits import current_transition, refuse_circular_wait

Target = tuple[int, tuple[Binding | None, ...]]


class Kernel(Host, Protocol):
    """What a fiber needs of the kernel."""

    table: BindingTable
    tables: dict[str, Any]
    caches: list[dict[Any, Any]]
    now: float
    event: Callable[[], anyio.Event]

    def hint(self, key: str) -> Sequence[str]: ...
    @property
    def batching(self) -> bool: ...
    def touch(self, fiber: "Fiber") -> None: ...
    def status(self, fiber: "Fiber", old: FiberState) -> None: ...
    def explain(self, fiber: "Fiber") -> object: ...
    def settled(self, fiber: "Fiber") -> bool: ...
    def touch_dependents(self, binding: Binding) -> None: ...
    def forget_lookups(self) -> None: ...
    def announce(self, fiber: "Fiber") -> None: ...
    def report_failures(self, fiber: "Fiber") -> None: ...


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class Fiber:
    """One running instance of a plugin. Made by `ctx.plugin`, `ctx.inject` and `ctx.scope`.

    Attributes:
        name: The plugin's name, or the one given at the mount.
        plugin: Its record; `None` for root.
        parent: The fiber it was mounted in; `None` for root.
        entry: What the loader said it belongs to.
        state: Where it is in its life.
        error: What made it FAILED.
        source: The configuration as it was given; `config` is the validated one.
        needs: Each declared key, and whether it is required.
        provides: The keys it must provide.
        ctx: Its context, the same one over all restarts.
        upper: The context that it was mounted through.
        retired_by: The context variables of whoever asked for its disposal.
    """

    kernel: Kernel
    uid: int
    parent: "Fiber | None"
    plugin: Plugin | None
    _: KW_ONLY
    name: str
    entry: object | None = None
    inject: InitVar[tuple[str, ...]] = ()

    needs: tuple[tuple[str, bool], ...] = ()
    provides: tuple[str, ...] = ()
    ctx: Any = None
    upper: Any = None
    is_scope: bool = False
    state: FiberState = PENDING
    since: float = 0.0
    source: object | None = None
    config: "BaseModel | None" = None
    generation: int = 0
    retiring: bool = False
    retired_by: Variables | None = None
    bindings: dict[Slot, Binding] = field(default_factory=dict)
    effects: dict[int, Effect] = field(default_factory=dict)
    # the load that runs or is up
    target: Target | None = None
    committed: Mapping[str, Binding | None] | None = None
    transition: Steps | None = None
    actor: Any = None
    awaits: "Fiber | None" = None
    update_handlers: list[Callable[[Any, Any], object]] = field(default_factory=list)
    withdrawn: tuple[Binding, ...] = ()  # still used by somebody
    given: tuple[Slot, ...] = ()  # what it, or a descendant, has ever provided
    # failures
    error: Exception | None = None
    failed_generation: int = -1
    failed_in: str = ""
    failures: list[Exception] = field(default_factory=list)
    announced: bool = True
    observers: int = 0
    collectors: int = 0
    # why it was loaded again
    loaded: bool = False
    request: str = ""
    cause: str = ""
    restarts: tuple[Restart, ...] = ()
    # what others keep here
    handle: Effect | None = None
    held: object | None = None
    logger: Any = None
    queued: int = 0
    parked: "tuple[Fiber, ...]" = ()
    _serial: int = 0
    _change: anyio.Event | None = None
    _rest: anyio.Event | None = None

    def __post_init__(self, inject: tuple[str, ...]) -> None:
        self.since = self.kernel.now
        if self.plugin is not None:
            self.needs, self.provides = self.plugin.needs, self.plugin.provides
        if inject:
            self.needs = tuple({**dict(self.needs), **dict.fromkeys(inject, True)}.items())

    def __str__(self) -> str:
        if self.plugin is None:
            return "root"
        place = f" ({self.entry})" if self.entry is not None else ""
        return f'plugin "{self.name}"{place}'

    def __repr__(self) -> str:
        return f"<Fiber {self.uid} {self.name} {self.state.value}>"

    @property
    def admits(self) -> bool:
        """Whether new effects, children, listeners and tasks are accepted."""
        state = self.state
        return state is ACTIVE or state is LOADING or (state is PENDING and not self.retiring)

    @property
    def ends(self) -> bool:
        """Whether it is being disposed, or is."""
        return self.retiring

    def ancestors(self) -> Iterator["Fiber"]:
        fiber = self.parent
        while fiber is not None:
            yield fiber
            fiber = fiber.parent

    def slot(self, key: str) -> Slot:
        """Returns where this fiber looks a key up, or provides it."""
        return (key, self.ctx.realm(key))

    def own(self, effect: Effect) -> None:
        """Puts an effect on the stack. Raises `InactiveFiberError` if nothing is admitted."""
        self.kernel.check_thread("register", effect.label)
        if not self.admits:
            raise InactiveFiberError(f"register {effect.label}", str(self), self.state.value)
        self._serial += 1
        effect.serial = self._serial
        self.effects[self._serial] = effect

    def disown(self, effect: Effect) -> None:
        self.effects.pop(effect.serial, None)

    def fail(self, error: Exception, label: str) -> None:
        """Takes the failure of a task, a manager or the body; on root it is only reported."""
        if self.state is UNLOADING:
            self.failures.append(error)
        elif self.parent is None or self.error is not None or self.state not in (LOADING, ACTIVE):
            self.kernel.report(self, error, label)
        else:
            self.take_error(error, label)
            self.kernel.touch(self)

    def take_error(self, error: Exception, label: str) -> None:
        """Keeps what makes the fiber FAILED until its next generation."""
        self.error, self.failed_in = error, label
        self.failed_generation = self.generation if self.target is None else self.target[0]
        self.announced = False

    @property
    def has_failed(self) -> bool:
        """Whether it has an error that no `update` or `restart` has answered."""
        return self.error is not None and self.failed_generation == self.generation

    def set_state(self, state: FiberState) -> None:
        old = self.state
        assert state in old.successors, f"{self}: {old.value} to {state.value}"
        self.state = state
        self.kernel.status(self, old)

    def bring_up(self) -> None:
        """Makes a fiber without a body ACTIVE: root, or a scope."""
        self.target, self.committed, self.loaded = (self.generation, ()), {}, True
        self.set_state(ACTIVE)

    def retire(self) -> None:
        """Asks for the disposal of the fiber, without waiting for it."""
        self.kernel.check_thread("retire", self)
        self._refuse_root()
        if not self.retiring:
            self.retiring = True
            self.retired_by = copy_context()
            self.kernel.touch(self)

    async def dispose(self, *, check: bool = False) -> None:
        """Undoes everything the fiber owns, and ends it; all callers return together.

        Failures are logged, or raised as one group with `check`. A cancelled caller does not
        interrupt the disposal.
        """
        refuse_circular_wait(self, "dispose")
        self.collectors += check
        try:
            self.retire()
            await self._until(lambda: self.state is DISPOSED)
        except BaseException:
            self.collectors -= check
            if check and self.state is DISPOSED:
                self.kernel.report_failures(self)
            raise
        self.collectors -= check
        if check and self.failures:
            raise ExceptionGroup(f"disposing {self}", list(flatten(self.failures)))

    async def settled(self) -> None:
        """Returns when no transition is in flight and the target is reached."""
        refuse_circular_wait(self, "settled")
        await self._until(lambda: self.kernel.settled(self))

    async def ready(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - its text explains
        """Returns when the fiber is ACTIVE.

        Raises `PluginFailedError` if it is FAILED, `InactiveFiberError` if it is DISPOSED, and
        `TimeoutError` with an explanation after `timeout` seconds.
        """
        if not self._is_up:
            refuse_circular_wait(self, "ready")
        self.observers += 1
        try:
            if timeout is None:
                await self._until(self._is_decided)
                return self._raise_unless_active()
            with anyio.move_on_after(timeout):
                await self._until(self._is_decided)
                return self._raise_unless_active()
            why = self.kernel.explain(self)
        finally:
            self._leave()
        raise TimeoutError(f"{self} is not ready after {timeout:g} s: {why}")

    async def restart(self) -> None:
        """Unloads and loads the fiber again; raises if it then is FAILED."""
        refuse_circular_wait(self, "restart")
        self._refuse_root()
        self._refuse_disposed("restart")
        if self.failed_in == "configuration" and self.has_failed:
            self._raise_unless_active()
        self._raise_generation("restart")
        await self._outcome()

    async def update(self, config: object) -> None:
        """Gives the fiber another configuration.

        An invalid one raises `ConfigError` and changes nothing; an equal one does nothing on a
        running fiber. Else a handler of `ctx.on_update` may apply it, or the fiber restarts.
        Raises `PluginFailedError` if the fiber then is FAILED.
        """
        refuse_circular_wait(self, "update")
        self._refuse_disposed("update")
        if self.plugin is None:
            raise ConfigError("root", [ConfigFault((), "takes no configuration")])
        new, old = self.plugin.validate(config), self.config
        runs, run = self.state in (LOADING, ACTIVE) and not self.has_failed, self.target
        applied = runs and (
            new == old or (self.state is ACTIVE and await self._apply_in_place(old, new))
        )
        applied = applied and self.target is run  # handlers of another load know nothing of it
        self.source, self.config = config, new
        if not applied:
            self._raise_generation("update")
        await self._outcome()

    async def changed(self) -> None:
        """Returns when the fiber changes its state the next time."""
        if self._change is None:
            self._change = self.kernel.event()
        await self._change.wait()

    def notify(self) -> None:
        """Wakes those who wait for a change."""
        if self._change is not None:
            self._change.set()
            self._change = None

    def rest(self) -> None:
        """Wakes those who wait until nothing is in flight."""
        if self._rest is not None:
            self._rest.set()
            self._rest = None

    def _refuse_root(self) -> None:
        if self.parent is None:
            raise ContextError(
                "root lives as long as the block of its container; "
                "`await root.reset()` disposes what it has"
            )

    def _refuse_disposed(self, action: str) -> None:
        self.kernel.check_thread(action, self)
        if self.retiring or self.state is DISPOSED:
            raise InactiveFiberError(f"{action} it", str(self), DISPOSED.value)

    def _raise_generation(self, request: str) -> None:
        self.generation += 1
        self.request = request
        self.kernel.touch(self)

    async def _apply_in_place(self, old: object, new: object) -> bool:
        for handler in reversed(self.update_handlers):
            result: Any = handler(old, new)
            if hasattr(result, "__await__"):
                result = await result
            if result is True:
                return True
        return False

    async def _until(self, condition: Callable[[], bool]) -> None:
        is_so = condition()
        if is_so or self.actor is None:
            await checkpoint()  # in which the kernel does what needs no task
            if is_so or condition():
                return
        current = current_transition()
        waiter: Any = None if current is None else current.fiber
        if waiter is not None:
            before, waiter.awaits = waiter.awaits, self
        try:
            while not condition():
                if self._rest is None:
                    self._rest = self.kernel.event()
                await self._rest.wait()
        finally:
            if waiter is not None:
                waiter.awaits = before

    def _is_decided(self) -> bool:
        state = self.state
        return state is DISPOSED or (self.has_failed if state is FAILED else self._is_up)

    @property
    def _is_up(self) -> bool:
        return self.state is ACTIVE and not self.has_failed

    def _raise_unless_active(self) -> None:
        if self.state is FAILED and self.error is not None:
            self.announced = True
            raise PluginFailedError(str(self), self.failed_in, self.error)
        if self.state is DISPOSED:
            raise InactiveFiberError("become ready", str(self), self.state.value)

    async def _outcome(self) -> None:
        if self.kernel.batching:
            return
        self.observers += 1
        try:
            await self._until(lambda: self.kernel.settled(self))
            self._raise_unless_active()
        finally:
            self._leave()

    def _leave(self) -> None:
        """The last of those who waited who leaves without the error of a load says so."""
        self.observers -= 1
        if self.state is FAILED:
            self.kernel.announce(self)
