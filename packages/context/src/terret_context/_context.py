"""`Context`: what plugin code holds."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from ._async_effects import AsyncEffect
from ._effects import Effect, Registration
from ._emitter import Emitter
from ._errors import ConfigError, InactiveFiberError, InvalidEffectError, ReservedNameError
from ._fiber import ACTIVE, FAILED, Fiber
from ._kernel import PLUGIN, Kernel
from ._keys import Key, key_name, python_name
from ._lookup import Lookup
from ._plugins import Plugin, as_plugin, kebab
from ._scopes import acquire_scope, release_scope
from ._services import Provision, Realm
from ._tasks import TaskHandle
from ._transitions import ChildEffect
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
    def root(self) -> "Context":
        """The container's own context."""
        root: Context = self._kernel.root.ctx
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

    # ---- derivation

    def isolate(self, key: "Key[object] | str", label: str | None = None) -> "Context":
        """Returns a view of the same fiber with another realm for one key.

        Without a label the realm is fresh; views isolated with one label share a realm.
        """
        name = key_name(key)
        realm = Realm() if label is None else self._kernel.table.labelled(name, label)
        return Context(self.fiber, self, self._scope, {name: realm})

    def scope(self, key: object, *, parent: object | None = None) -> "Context":
        """Creates a child fiber without body, ACTIVE at once, tagged with `key` (by identity).

        What is registered through it is seen by that scope and those below it, and ends with
        `await scoped.fiber.dispose()`. `parent` is its parent scope, else the nearest of this
        context.
        """
        scoped = self._mount(_SCOPE, name="scope", scope=key)
        above = self._scope if parent is None else parent
        Registration(scoped.fiber, "scope").run(lambda: _enter_scope(key, above))
        scoped.fiber.target, scoped.fiber.committed = (0, ()), {}
        scoped.fiber.set_state(ACTIVE)
        return scoped

    # ---- plugins

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
        keys = tuple(key_name(key) for key in inject)
        mounted = self._mount(record, name=name or record.name, inject=keys, entry=entry)
        fiber = mounted.fiber
        fiber.source = config
        try:
            fiber.config = record.validate(config)
        except ConfigError as error:
            fiber.error, fiber.failed_generation = error, 0
        self._kernel.emit(PLUGIN, fiber)
        if fiber.error is not None and not fiber.retiring:
            fiber.set_state(FAILED)
            self._kernel.failed(fiber)
        self._kernel.touch(fiber)
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

    # ---- effects

    def effect(self, body: Any, *, label: str | None = None) -> Effect:
        """Calls `body()` now and owns what it gives: an undo, a manager, or yielded steps.

        A plain body that raises is undone as far as it got, and its error is raised. A coroutine
        function, async generator function or async manager runs in a task of its own: `await` the
        effect for its setup. Raises `InvalidEffectError` for a value that cannot be undone.
        """
        name = label or "anonymous"
        if _is_async_body(body):
            task = AsyncEffect(self.fiber, name, body if callable(body) else lambda: body)
            task.start()
            return task
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
        effect = Registration(self.fiber, f"enter {type(manager).__name__}")
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
        effect = AsyncEffect(self.fiber, f"enter {type(manager).__name__}", lambda: manager)
        effect.start()
        await effect
        return effect.value  # type: ignore[no-any-return]  # what `__aenter__` returned

    def spawn(
        self, fn: Callable[..., Awaitable[object]], *args: object, name: str | None = None
    ) -> TaskHandle:
        """Runs `fn(*args)` as a background task of the fiber, in a copy of the caller's variables.

        The task is cancelled and joined when the fiber unloads; if it raises, the fiber is FAILED.
        """
        title = name or getattr(fn, "__name__", None) or type(fn).__name__
        handle = TaskHandle(self.fiber, f'task "{title}"', partial(fn, *args))
        handle.start()
        return handle

    def provide(self, key: "Key[S] | str", value: S) -> Provision:
        """Offers an object under a key; others see it when the fiber is ACTIVE.

        Raises `DuplicateServiceError` if the realm has a provider of the key, `ReservedNameError`
        if the key is named like a member of `Context`.
        """
        name = key_name(key)
        if hasattr(Context, python_name(name)):
            raise ReservedNameError(name, member=python_name(name))
        slot = (name, self.realm(name))
        table = self._kernel.table
        table.refuse_second(slot, self.fiber)
        return Provision(self.fiber, table, slot, value)

    def report(self, error: BaseException, *, label: str) -> None:
        """Contains an error: it goes to the log and to `internal/error`, and stops nothing."""
        self._kernel.report(self.fiber, error, label)

    def _mount(
        self,
        plugin: Plugin,
        *,
        name: str,
        inject: tuple[str, ...] = (),
        entry: object | None = None,
        scope: object | None = None,
    ) -> "Context":
        kernel = self._kernel
        kernel.check_thread(f"mount {plugin}")
        if not self.fiber.admits:
            state = self.fiber.state.value
            raise InactiveFiberError(f"mount {plugin}", str(self.fiber), state)
        fiber = Fiber(
            kernel, kernel.next_uid(), self.fiber, plugin, name=name, entry=entry, inject=inject
        )
        fiber.is_scope = plugin is _SCOPE
        fiber.ctx = ctx = Context(fiber, self, self._scope if scope is None else scope)
        for key in fiber.provides:
            kernel.table.refuse_second((key, ctx.realm(key)), fiber)
        for check in tuple(kernel.mount_checks.values()):
            check(fiber)
        fiber.handle = ChildEffect(self.fiber, f'plugin "{name}"', fiber)
        kernel.adopt(fiber)
        return ctx


_SCOPE = Plugin(name="scope", body=lambda ctx: None)


def _enter_scope(key: object, parent: object | None) -> Callable[[], None]:
    acquire_scope(key, parent)
    return partial(release_scope, key)


def _is_async_body(body: object) -> bool:
    if isinstance(body, AbstractAsyncContextManager):
        return not isinstance(body, AbstractContextManager)
    return inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
