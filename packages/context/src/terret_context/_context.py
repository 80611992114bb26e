"""`Context`: what plugin code holds."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from anyio import CancelScope

from . import diagnostics
from ._async_effects import AsyncEffect
from ._effects import Effect, drive, flatten
from ._emitter import Emitter
from ._errors import ConfigError, InactiveFiberError, InvalidEffectError, ReservedNameError
from ._fiber import Fiber
from ._internal import INTERNAL_PLUGIN
from ._kernel import Kernel
from ._keys import Key, key_name, python_name
from ._lookup import Lookup
from ._plugins import Plugin, as_plugin, kebab
from ._realms import RealmMap
from ._registrations import Registration, is_body
from ._scopes import open_scope
from ._services import Labels, Provision
from ._states import FAILED
from ._tasks import TaskHandle
from ._transitions import ChildEffect, drain, undo_all
from ._waits import refuse_circular_wait
from .logging import logger_for

S = TypeVar("S")
V = TypeVar("V")


class Context(Lookup, Emitter):
    """A view of a fiber: through it a plugin looks services up and registers what it adds.

    Whatever is registered through a context is owned by its fiber and undone with it, newest first.
    Registering raises `InactiveFiberError` once the fiber unloads, has failed or is disposed.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.fiber}>"

    @property
    def root(self) -> "Root":
        """The container's own context."""
        root: Root = self._kernel.root.ctx
        return root

    @property
    def scope_key(self) -> object | None:
        """The scope that registrations through this context belong to, or `None`."""
        return self._scope

    @property
    def grace(self) -> float:
        """Seconds that each asynchronous part of a teardown has in this container."""
        return self._kernel.grace

    @property
    def logger(self) -> Any:
        """A structlog logger bound to plugin, entry and fiber."""
        return logger_for(self.fiber)

    @property
    def _kernel(self) -> Kernel:
        kernel: Any = self.fiber.kernel
        return kernel  # type: ignore[no-any-return]  # fibers know it by its protocol

    def isolate(self, key: "Key[object] | str", label: str | None = None) -> "Context":
        """Returns a view of the same fiber with another realm for one key.

        Without a label the realm is fresh; views isolated with one label share a realm.
        """
        return self.with_realms({key: label})

    def with_realms(self, labels: Labels) -> "Context":
        """Returns a view of the same fiber with other realms for several keys.

        `labels` maps a key to a label, or to `None` for a fresh realm. `root.set_realms` can
        change them later.
        """
        realms = RealmMap(self._realms)
        realms.own = self._kernel.table.realms(labels, {})
        return Context(self.fiber, realms, self._scope)

    def scope(self, key: object, *, parent: object | None = None) -> "Context":
        """Creates a child fiber without body, ACTIVE at once, tagged with `key` (by identity).

        What is registered through it is seen by that scope and those below it, and ends with
        `await scoped.fiber.dispose()`. `parent` is its parent scope, else the nearest of this
        context. Raises `ScopeLinkError` for a cycle, or if the key has another parent already.
        """
        record = open_scope(key, parent, self._scope)
        fiber = self._mount(_SCOPE, name="scope", scope=key)
        fiber.held, fiber.is_scope = record, True
        fiber.bring_up()
        scoped: Context = fiber.ctx
        return scoped

    def plugin(
        self,
        plugin: object,
        config: object = None,
        *,
        name: str | None = None,
        inject: Iterable[object] = (),
        entry: object | None = None,
    ) -> Fiber:
        """Mounts a plugin as a child fiber. None of its code runs before this returns.

        Raises only for mistakes of the program: not a plugin, API range, a provision that another
        fiber of the realm declares or made, an inactive context. Everything later, an invalid
        configuration too, is a state of the fiber.
        """
        record = as_plugin(plugin)
        record.check_api()
        keys = tuple(map(key_name, inject))
        fiber = self._mount(record, name=name, inject=keys, entry=entry, source=config)
        try:
            fiber.config = record.validate(config)
        except ConfigError as error:
            fiber.take_error(error, "configuration")
        kernel = self._kernel
        kernel.emit(INTERNAL_PLUGIN, fiber)
        if fiber.error is not None and not fiber.retiring:
            fiber.set_state(FAILED)
        kernel.touch(fiber)
        return fiber

    def inject(self, keys: Iterable[object], body: Callable[..., object]) -> Fiber:
        """Mounts `body(ctx)` as a child that runs while all keys are there."""
        name = kebab(getattr(body, "__name__", "inject"))
        return self.plugin(Plugin(name=name, body=body, inject=tuple(map(key_name, keys))))

    def on_update(self, fn: Callable[[Any, Any], object]) -> Effect:
        """Asks `fn(old, new)`, plain or async, before a changed configuration restarts the fiber.

        Returning exactly `True` means "applied": the fiber keeps running. The handler belongs to
        this load.
        """
        handlers = self.fiber.update_handlers

        def add() -> Callable[[], object]:
            handlers.append(fn)
            return lambda: handlers.remove(fn) if fn in handlers else None

        return self.effect(add, label="on update")

    def effect(self, body: Any, *, label: str | None = None) -> Effect:
        """Calls `body()` now and owns what it gives: an undo, a manager, or yielded steps.

        A plain body that raises is undone as far as it got, and its error is raised. A coroutine
        function, async generator function or async manager runs in a task of its own: `await` the
        effect for its setup. Raises `InvalidEffectError` for a value that cannot be undone.
        """
        name = label or "anonymous"
        if _is_async_body(body):
            return AsyncEffect(self.fiber, name, body if is_body(body) else lambda: body)
        effect = Registration(self.fiber, name)
        effect.run(body)
        return effect

    def enter(self, manager: AbstractContextManager[V]) -> V:
        """Enters a plain context manager, which is left with the fiber; returns its value."""
        if not isinstance(manager, AbstractContextManager):
            raise InvalidEffectError(
                f"{manager!r} is no plain context manager; for an async one use "
                "`await ctx.enter_async(manager)`"
            )
        effect = Registration(self.fiber, _label_of(manager))
        value: Any = effect.run(manager)
        return value  # type: ignore[no-any-return]  # what `__enter__` returned

    async def enter_async(self, manager: AbstractAsyncContextManager[V]) -> V:
        """Enters an async manager in a task of its own, where it is left with the fiber.

        Returns its value. A manager that fails while it is open makes the fiber FAILED.
        """
        if not isinstance(manager, AbstractAsyncContextManager):
            raise InvalidEffectError(
                f"{manager!r} is no async context manager; for a plain one use `ctx.enter(manager)`"
            )
        effect = AsyncEffect(self.fiber, _label_of(manager), lambda: manager)
        await effect
        return effect.value  # type: ignore[no-any-return]  # what `__aenter__` returned

    def spawn(
        self, fn: Callable[..., Awaitable[object]], *args: object, name: str | None = None
    ) -> TaskHandle:
        """Runs `fn(*args)` as a background task of the fiber, in a copy of the caller's variables.

        The task is cancelled and joined when the fiber unloads; if it raises, the fiber is FAILED.
        """
        title = name or getattr(fn, "__name__", None) or type(fn).__name__
        return TaskHandle(self.fiber, f'task "{title}"', partial(fn, *args))

    def provide(self, key: "Key[S] | str", value: S) -> Provision:
        """Offers an object under a key; others see it when the fiber is ACTIVE.

        Raises `DuplicateServiceError` if the realm has a provider of the key, `ReservedNameError`
        if the key is named like a member of `Context`.
        """
        name = key_name(key)
        if hasattr(Context, python_name(name)):
            raise ReservedNameError(name, member=python_name(name))
        self._kernel.table.refuse_second((name, self.realm(name)), self.fiber)
        return Provision(self.fiber, self, name, value)

    def report(self, error: BaseException, *, label: str) -> None:
        """Contains an error: it goes to the log and to `internal/error`, and stops nothing."""
        self._kernel.report(self.fiber, error, label)

    def _mount(
        self,
        plugin: Plugin,
        *,
        name: str | None,
        inject: tuple[str, ...] = (),
        entry: object | None = None,
        source: object = None,
        scope: object | None = None,
    ) -> Fiber:
        kernel = self._kernel
        name = name or plugin.name
        label = f'plugin "{name}"'
        kernel.check_thread("mount", label)
        if not self.fiber.admits:
            state = self.fiber.state.value
            raise InactiveFiberError(f"mount {label}", str(self.fiber), state)
        uid = kernel.next_uid()
        fiber = Fiber(kernel, uid, self.fiber, plugin, name=name, entry=entry, inject=inject)
        fiber.upper, fiber.source = self, source
        fiber.ctx = Context(fiber, self._realms, self._scope if scope is None else scope)
        for key in fiber.provides:
            kernel.table.refuse_second(fiber.slot(key), fiber)
        for check in tuple(kernel.mount_checks.values()):
            check(fiber)
        fiber.handle = ChildEffect(self.fiber, label, fiber)
        kernel.adopt(fiber)
        return fiber


class Root(Context):
    """The context of a container itself, with what concerns all of it."""

    __slots__ = ()

    async def settle(self) -> None:
        """Returns when no fiber has work left."""
        refuse_circular_wait(self.fiber, "settle")
        await self._kernel.settle()

    async def reset(self) -> None:
        """Disposes all children and effects of root, which then can be used again."""
        refuse_circular_wait(self.fiber, "reset")
        self._kernel.check_thread("reset", self.fiber)
        errors: list[Exception] = []
        with CancelScope(shield=True):
            for binding in tuple(self.fiber.bindings.values()):
                binding.live = False
                self._kernel.touch_dependents(binding)
            await drive(drain(self.fiber))
            await drive(undo_all(self.fiber, errors))
        for error in flatten(errors):
            self._kernel.report(self.fiber, error, "reset")

    def fibers(self, plugin: object | None = None) -> tuple[Fiber, ...]:
        """Returns the live fibers, or those of one plugin, in order of mounting."""
        if plugin is None:
            return tuple(self._kernel.fibers)
        record = as_plugin(plugin)
        return tuple(fiber for fiber in self._kernel.fibers if fiber.plugin == record)

    def mount_check(self, fn: Callable[[Fiber], object]) -> Effect:
        """Adds a check that runs in `ctx.plugin()`; what it raises refuses the mount."""
        checks = self._kernel.mount_checks

        def add() -> Callable[[], object]:
            key = object()
            checks[key] = fn
            return lambda: checks.pop(key, None)

        return self.effect(add, label="mount check")

    def installed_hint(self, fn: Callable[[str], Sequence[str]]) -> Effect:
        """Lets `fn(key)` say which installed plugins would provide a key that nobody provides."""
        kernel = self._kernel

        def add() -> Callable[[], object]:
            before, kernel.hint = kernel.hint, fn
            return lambda: setattr(kernel, "hint", before)

        return self.effect(add, label="installed hint")

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[list[Fiber]]:
        """Applies many changes as one: no load starts inside; leaving it settles them.

        The yielded list then holds the fibers that failed on the way. Whoever runs the batch has
        their errors, so they are not logged as well.
        """
        kernel = self._kernel
        outer, kernel.failures = kernel.failures, []
        failed = kernel.failures
        try:
            kernel.hold_loads()
            try:
                yield failed
            finally:
                kernel.release_loads()
            await self.settle()
        finally:
            kernel.failures = outer

    def set_realms(self, changes: Mapping[Context, Labels]) -> None:
        """Replaces the realms of views made by `with_realms` or `isolate`, all at once.

        A key that is left out is isolated no longer; `None` keeps a fresh realm that is there. A
        consumer restarts only if its binding changes; what a provider offers moves along, without
        a reload. Raises `DuplicateServiceError`, and changes nothing, if two objects would meet.
        """
        kernel = self._kernel
        kernel.check_thread("change realms of", self.fiber)
        for view in changes:
            if view._realms is None:
                raise ValueError(f"{view!r} is no view made by `with_realms` or `isolate`")
        for fiber in kernel.table.set_realms(
            (view._realms, labels) for view, labels in changes.items() if view._realms is not None
        ):
            kernel.touch(fiber)
        kernel.forget_lookups()
        kernel.edges_changed()

    def snapshot(self) -> dict[str, Any]:
        """Returns the whole state as JSON-able data; equal up to uids means equal in behaviour."""
        return diagnostics.snapshot(self._kernel)

    def explain(self, fiber: Fiber) -> diagnostics.Explanation:
        """Says in which state a fiber is and why; `str()` of the result is the text."""
        return diagnostics.explain(self._kernel, fiber)


_SCOPE = Plugin(name="scope", body=lambda ctx: None)


def _label_of(manager: object) -> str:
    function = getattr(manager, "func", None)  # of those made with `contextlib`
    return f'manager "{getattr(function, "__name__", type(manager).__name__)}"'


def _is_async_body(body: object) -> bool:
    if isinstance(body, AbstractAsyncContextManager):
        return not isinstance(body, AbstractContextManager)
    return inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
