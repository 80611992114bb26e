"""Fibers: running instances of plugins, and the views that plugin code holds of them."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import anyio
from pydantic import BaseModel

from ._effects import Effect, Host, Steps, flatten
from ._errors import (
    ConfigError,
    InactiveFiberError,
    PluginFailedError,
)
from ._plugins import Plugin
from ._services import Binding, BindingTable, Realm, Slot
from ._waits import TRANSITION, refuse_circular_wait


class FiberState(Enum):
    """Where a fiber is in its life; `container.md` has the table of transitions."""

    PENDING = "PENDING"
    LOADING = "LOADING"
    ACTIVE = "ACTIVE"
    UNLOADING = "UNLOADING"
    FAILED = "FAILED"
    DISPOSED = "DISPOSED"


PENDING, LOADING, ACTIVE, UNLOADING, FAILED, DISPOSED = FiberState
_ADMITTING = frozenset((PENDING, LOADING, ACTIVE))
Target = tuple[int, tuple[Binding | None, ...]]


class View:
    """A fiber, a realm map and a scope key: the data of a `Context`."""

    __slots__ = ("_cache", "_isolated", "_scope", "_upper", "_views", "fiber")

    def __init__(
        self,
        fiber: "Fiber",
        upper: "View | None",
        scope: object | None,
        isolated: Mapping[str, Realm] | None = None,
    ) -> None:
        self.fiber = fiber
        self._upper = upper
        self._scope = scope
        self._isolated = isolated
        self._cache: dict[Any, Any] = {}
        self._views: dict[Binding, Any] = {}

    def realm(self, key: str) -> Realm | None:
        """Returns the realm in which this view looks `key` up; `None` is the common one."""
        view: View | None = self
        while view is not None:
            if view._isolated is not None and key in view._isolated:
                return view._isolated[key]
            view = view._upper
        return None


class Kernel(Host, Protocol):
    """What a fiber needs of the kernel."""

    table: BindingTable
    tables: dict[str, Any]
    caches: list[dict[Any, Any]]

    def hint(self, key: str) -> Sequence[str]: ...
    @property
    def batching(self) -> bool: ...
    def touch(self, fiber: "Fiber") -> None: ...
    def status(self, fiber: "Fiber", old: FiberState) -> None: ...
    def explain(self, fiber: "Fiber") -> object: ...
    def check_thread(self, action: str) -> None: ...
    def settled(self, fiber: "Fiber") -> bool: ...
    def touch_dependents(self, binding: Binding) -> None: ...
    def silence(self, fiber: "Fiber") -> None: ...


class Fiber:
    """One running instance of a plugin. Made by `ctx.plugin`, `ctx.inject` and `ctx.scope`."""

    __slots__ = (
        "__weakref__",
        "_change",
        "_serial",
        "actor",
        "bindings",
        "cause",
        "check_waiters",
        "committed",
        "config",
        "ctx",
        "effects",
        "entry",
        "error",
        "failed_generation",
        "generation",
        "handle",
        "is_scope",
        "kernel",
        "loads",
        "logger",
        "name",
        "needs",
        "observers",
        "parent",
        "parked",
        "plugin",
        "provides",
        "queued",
        "retiring",
        "since",
        "source",
        "state",
        "target",
        "teardown_errors",
        "transition",
        "uid",
        "update_handlers",
    )

    def __init__(
        self,
        kernel: Kernel,
        uid: int,
        parent: "Fiber | None",
        plugin: Plugin | None,
        *,
        name: str,
        entry: object | None = None,
        inject: tuple[str, ...] = (),
    ) -> None:
        self.kernel = kernel
        self.uid = uid
        self.parent = parent
        self.plugin = plugin
        self.name = name
        self.entry = entry
        self.state = PENDING
        self.ctx: Any = None
        self.source: object | None = None
        self.config: BaseModel | None = None
        self.needs: tuple[tuple[str, bool], ...] = ()
        self.provides: tuple[str, ...] = ()
        if plugin is not None:
            self._declare(plugin, inject)
        self.generation = 0
        self.failed_generation = -1
        self.target: Target | None = None
        self.committed: dict[str, Binding | None] | None = None
        self.bindings: dict[Slot, Binding] = {}
        self.effects: dict[int, Effect] = {}
        self._serial = 0
        self.update_handlers: list[Any] = []
        self.error: BaseException | None = None
        self.teardown_errors: list[Exception] = []
        self.transition: Steps | None = None
        self.actor: Any = None
        self.handle: Effect | None = None
        self.is_scope = False
        self.logger: Any = None
        self.retiring = False
        self.queued = 0
        self.parked: list[Fiber] = []
        self.loads: list[float] | None = None
        self.cause = ""
        self.since = 0.0
        self.observers = 0
        self.check_waiters = 0
        self._change: anyio.Event | None = None

    def __str__(self) -> str:
        if self.plugin is None:
            return "root"
        place = f" ({self.entry})" if self.entry is not None else ""
        return f'plugin "{self.name}"{place}'

    def __repr__(self) -> str:
        return f"<Fiber {self.uid} {self.name} {self.state.value}>"

    def _declare(self, plugin: Plugin, inject: tuple[str, ...]) -> None:
        required = dict.fromkeys((*plugin.inject, *inject), True)
        self.needs = (
            *required.items(),
            *((k, False) for k in plugin.optional if k not in required),
        )
        self.provides = plugin.provides

    # ---- what the container asks of it

    @property
    def admits(self) -> bool:
        """Whether new effects, children, listeners and tasks are accepted."""
        return self.state in _ADMITTING and not (self.retiring and self.state is PENDING)

    @property
    def offers(self) -> bool:
        """Whether its bindings count for others."""
        return self.state is ACTIVE

    @property
    def ends(self) -> bool:
        """Whether it is being disposed, or is."""
        return self.retiring

    def ancestors(self) -> Iterator["Fiber"]:
        fiber = self.parent
        while fiber is not None:
            yield fiber
            fiber = fiber.parent

    def own(self, effect: Effect) -> None:
        """Puts an effect on the stack. Raises `InactiveFiberError` if nothing is admitted."""
        self.kernel.check_thread(f"register {effect.label}")
        if not self.admits:
            raise InactiveFiberError(f"register {effect.label}", str(self), self.state.value)
        self._serial += 1
        effect.serial = self._serial
        self.effects[self._serial] = effect

    def disown(self, effect: Effect) -> None:
        self.effects.pop(effect.serial, None)

    def fail(self, error: Exception, label: str) -> None:
        """Takes the failure of a task, a manager or the body; on root it is only reported."""
        if self.parent is None or self.error is not None or self.state not in (LOADING, ACTIVE):
            self.kernel.report(self, error, label)
            return
        self.error = error
        self.failed_generation = self.generation
        self.kernel.touch(self)

    def set_state(self, state: FiberState) -> None:
        old, self.state = self.state, state
        self.kernel.status(self, old)

    # ---- what its holders ask of it

    def retire(self) -> None:
        """Asks for the disposal of the fiber, without waiting for it."""
        self.kernel.check_thread("retire a fiber")
        if not self.retiring and self.parent is not None:
            self.retiring = True
            self.kernel.touch(self)

    async def dispose(self, *, check: bool = False) -> None:
        """Disposes the fiber and returns when all of it is undone.

        Failures of the teardown are logged; with `check=True` they are raised as one flat group.
        Every caller joins the same completion; cancelling one changes nothing.
        """
        if self.parent is None:
            raise InactiveFiberError("dispose root; leave its block instead", "root", "in use")
        refuse_circular_wait(self, "dispose")
        self.check_waiters += check
        try:
            self.retire()
            await self._until(lambda: self.state is DISPOSED)
        finally:
            self.check_waiters -= check
        if check and self.teardown_errors:
            raise ExceptionGroup(f"disposing {self}", flatten(self.teardown_errors))

    async def settled(self) -> None:
        """Returns when no transition is in flight and the target is reached."""
        refuse_circular_wait(self, "settled")
        await self._until(lambda: self.kernel.settled(self))

    async def ready(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - its text explains
        """Returns when the fiber is ACTIVE.

        Raises `PluginFailedError` if it is FAILED, `InactiveFiberError` if it is DISPOSED, and
        `TimeoutError` with an explanation after `timeout` seconds.
        """
        if self.state is ACTIVE and self.error is None:
            current = TRANSITION.get()
            if current is None or current.fiber is not self:
                return None
        refuse_circular_wait(self, "ready")
        self.observers += 1
        try:
            with anyio.move_on_after(timeout):
                await self._until(lambda: self.state in (ACTIVE, DISPOSED) or self._has_failed())
                return self._raise_unless_active()
        finally:
            self.observers -= 1
        raise TimeoutError(f"{self} is not ready after {timeout:g} s: {self.kernel.explain(self)}")

    async def restart(self) -> None:
        """Unloads and loads the fiber again; raises if it then is FAILED."""
        refuse_circular_wait(self, "restart")
        self.kernel.check_thread("restart a fiber")
        self._refuse_disposed("restart")
        self._raise_generation("restart")
        await self._outcome()

    async def update(self, config: object) -> None:
        """Gives the fiber another configuration.

        An invalid one raises `ConfigError` and changes nothing; an equal one does nothing on a
        running fiber. Else a handler of `ctx.on_update` may apply it, or the fiber restarts.
        Raises `PluginFailedError` if the fiber then is FAILED.
        """
        refuse_circular_wait(self, "update")
        self.kernel.check_thread("update a fiber")
        self._refuse_disposed("update")
        if self.plugin is None:
            raise ConfigError("root", [])
        new = self.plugin.validate(config)
        old = self.config
        if self.state is ACTIVE and self.target is not None and new == old:
            self.source = config
            return
        applied = self.state is ACTIVE and await self._apply_in_place(old, new)
        self.source, self.config = config, new
        if not applied:
            self._raise_generation("update")
            await self._outcome()

    async def changed(self) -> None:
        """Returns at the next change of the fiber."""
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()

    def notify(self) -> None:
        """Wakes those who wait for a change."""
        if self._change is not None:
            self._change.set()
            self._change = None

    # ---- parts of these

    def _refuse_disposed(self, action: str) -> None:
        if self.retiring or self.state is DISPOSED:
            raise InactiveFiberError(f"{action} it", str(self), DISPOSED.value)

    def _raise_generation(self, cause: str) -> None:
        self.generation += 1
        self.loads = None
        self.cause = cause
        self.kernel.touch(self)

    async def _apply_in_place(self, old: object, new: object) -> bool:
        for handler in reversed(self.update_handlers):
            result = handler(old, new)
            if hasattr(result, "__await__"):
                result = await result
            if result is True:
                return True
        return False

    async def _until(self, condition: Any) -> None:
        await anyio.lowlevel.checkpoint()
        while not condition():
            await self.changed()

    def _has_failed(self) -> bool:
        return self.state is FAILED and self.failed_generation == self.generation

    def _raise_unless_active(self) -> None:
        if self.state is FAILED and self.error is not None:
            raise PluginFailedError(str(self), self.error)
        if self.state is DISPOSED:
            raise InactiveFiberError("become ready", str(self), self.state.value)

    async def _outcome(self) -> None:
        if self.kernel.batching:
            return
        self.observers += 1
        try:
            await self._until(lambda: self.kernel.settled(self))
        finally:
            self.observers -= 1
        self._raise_unless_active()
