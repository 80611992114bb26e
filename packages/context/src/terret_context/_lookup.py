"""Looking services up: what a context may see, and why it sees nothing."""

from typing import TYPE_CHECKING, Any, TypeVar

from ._errors import LookupFailedError, NotInjectedError, ServiceUnavailableError
from ._fiber import Fiber
from ._keys import Key, key_name, wire_name
from ._realms import Realm, RealmMap
from ._services import Binding
from ._views import view_of
from .diagnostics import why_missing

S = TypeVar("S")


class Lookup:
    """The part of `Context` that finds services: a view of a fiber, with realms and a scope key."""

    __slots__ = ("_cache", "_realms", "_scope", "_seen", "fiber")

    fiber: Fiber
    _realms: RealmMap | None
    _scope: object | None
    _cache: dict[Any, Any]
    _seen: dict[Binding, Any]

    def __init__(self, fiber: Fiber, realms: RealmMap | None, scope: object | None) -> None:
        put = object.__setattr__  # a context refuses to be given attributes
        put(self, "fiber", fiber)
        put(self, "_realms", realms)
        put(self, "_scope", scope)
        put(self, "_cache", {})
        put(self, "_seen", {})

    def realm(self, key: str) -> Realm | None:
        """Returns the realm in which `key` is looked up; `None` is the common one."""
        return None if self._realms is None else self._realms.find(key)

    def __getitem__(self, key: "Key[S]") -> S:
        """Returns the service of a key that this or an enclosing plugin declared or provided.

        Raises `NotInjectedError` if none did, `ServiceUnavailableError` if it is not there now.
        """
        found: Any = self._cache.get(key)
        if found is None:
            found = self._view(self._binding(key_name(key)))
            if not self._cache:
                self.fiber.kernel.caches.append(self._cache)
            self._cache[key] = found
        return found  # type: ignore[no-any-return]  # the key carries the type

    def get(self, key: "Key[S]") -> S | None:
        """Returns the service of a key, declared or not, or `None` if nobody offers it now."""
        name = key_name(key)
        try:
            found: Any = self._view(self._binding(name))
        except LookupFailedError:
            binding = self.fiber.kernel.table.at((name, self.realm(name)))
            found = self._view(binding) if binding is not None and binding.offered else None
        return found  # type: ignore[no-any-return]  # the key carries the type

    if not TYPE_CHECKING:  # plugins use `ctx[Key]`, which a type checker understands

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return self[wire_name(name)]

        def __setattr__(self, name, value):
            try:
                super().__setattr__(name, value)
            except AttributeError:
                raise AttributeError(
                    f'cannot set "{name}" on a context; '
                    "offer a service with `ctx.provide(key, value)`"
                ) from None

    def _view(self, binding: Binding) -> Any:
        view = self._seen.get(binding)
        if view is None:
            view = view_of(binding, self)
            self._seen = {known: seen for known, seen in self._seen.items() if known.live}
            self._seen[binding] = view
        return view

    def _binding(self, name: str) -> Binding:
        realm = self.realm(name)
        fiber = self.fiber
        only_scopes = True
        while fiber.upper is not None:
            own = fiber.bindings.get((name, realm)) or _committed(fiber, name, realm)
            if own is not None:
                return own
            if fiber.upper.realm(name) is not realm:
                raise NotInjectedError(name, str(self.fiber))
            only_scopes = only_scopes and fiber.is_scope
            fiber = fiber.upper.fiber
        binding = fiber.kernel.table.at((name, realm)) if only_scopes else None
        if binding is None or not (binding.offered or binding.fiber is fiber):
            raise NotInjectedError(name, str(self.fiber))
        return binding


def _committed(fiber: Fiber, name: str, realm: object) -> Binding | None:
    if all(key != name for key, _ in fiber.needs) or fiber.ctx.realm(name) is not realm:
        return None
    binding = (fiber.committed or {}).get(name)
    if binding is None:
        raise ServiceUnavailableError(name, str(fiber), why_missing(fiber, name))
    return binding
