"""Looking services up: what a context may see, and why it sees nothing."""

from typing import TYPE_CHECKING, Any, TypeVar

from ._errors import LookupFailedError, NotInjectedError, ServiceUnavailableError
from ._fiber import FAILED, Fiber, View
from ._keys import Key, key_name, wire_name
from ._services import Binding
from ._transitions import closes_cycle, offered_to
from ._views import view_of

S = TypeVar("S")


class Lookup(View):
    """The part of `Context` that finds services."""

    __slots__ = ()

    def __getitem__(self, key: "Key[S]") -> S:
        """Returns the service of a key that this or an enclosing plugin declared or provided.

        Raises `NotInjectedError` if none did, `ServiceUnavailableError` if it is not there now.
        """
        found: Any = self._cache.get(key)
        if found is None:
            found = self._seen(self._binding(key_name(key)))
            if not self._cache:
                self.fiber.kernel.caches.append(self._cache)
            self._cache[key] = found
        return found  # type: ignore[no-any-return]  # the key carries the type

    def get(self, key: "Key[S]") -> S | None:
        """Returns the service of a key, declared or not, or `None` if nobody offers it now."""
        name = key_name(key)
        try:
            found: Any = self._seen(self._binding(name))
        except LookupFailedError:
            binding = self.fiber.kernel.table.at((name, self.realm(name)))
            found = self._seen(binding) if binding is not None and binding.offered else None
        return found  # type: ignore[no-any-return]  # the key carries the type

    if not TYPE_CHECKING:  # plugins use `ctx[Key]`, which a type checker understands

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return self[wire_name(name)]

    def __setattr__(self, name: str, value: object) -> None:
        try:
            super().__setattr__(name, value)
        except AttributeError:
            raise AttributeError(
                f'cannot set "{name}" on a context; offer a service with `ctx.provide(key, value)`'
            ) from None

    def _seen(self, binding: Binding) -> Any:
        view = self._views.get(binding)
        if view is None:
            view = view_of(binding, self)
            self._views = {known: seen for known, seen in self._views.items() if known.live}
            self._views[binding] = view
        return view

    def _binding(self, name: str) -> Binding:
        realm = self.realm(name)
        view: View = self
        only_scopes = True
        while view.fiber.parent is not None:
            fiber = view.fiber
            own = fiber.bindings.get((name, realm)) or _committed(fiber, name, realm)
            if own is not None:
                return own
            only_scopes = only_scopes and fiber.is_scope
            view = fiber.ctx._upper
            if view.realm(name) is not realm:
                raise NotInjectedError(name, str(self.fiber))
        if only_scopes:
            binding = self.fiber.kernel.table.at((name, realm))
            if binding is not None and (binding.offered or binding.fiber is view.fiber):
                return binding
        raise NotInjectedError(name, str(self.fiber))


def _committed(fiber: Fiber, name: str, realm: object) -> Binding | None:
    if fiber.ctx.realm(name) is not realm or all(key != name for key, _ in fiber.needs):
        return None
    binding = (fiber.committed or {}).get(name)
    if binding is None:
        raise ServiceUnavailableError(name, str(fiber), why_missing(fiber, name))
    return binding


def why_missing(fiber: Fiber, key: str) -> str:
    """Says why a fiber has no binding for a key that it declares."""
    table = fiber.kernel.table
    slot = (key, fiber.ctx.realm(key))
    binding = table.at(slot)
    if offered_to(fiber, key) is not None:
        assert binding is not None
        if closes_cycle(fiber, binding):
            return f"{binding.fiber} depends on it in turn, so the optional key counts as absent"
        return f"{fiber} is {fiber.state.value}"
    if binding is not None:
        if binding.offered:
            return f"its provider {binding.fiber} belongs to the plugin itself"
        return _provider_state(binding.fiber)
    declared = [other for other in table.declared(slot) if not other.ends]
    if declared:
        return _provider_state(declared[0])
    if any(other.key == key for other in table):
        return f"waiting for {key}, provided in another realm only"
    installed = ", ".join(fiber.kernel.hint(key))
    hint = f" (installed: {installed})" if installed else ""
    return f"waiting for {key}, provided by no one{hint}"


def _provider_state(provider: Fiber) -> str:
    why = f": {provider.error}" if provider.state is FAILED and provider.error else ""
    return f"provider {provider} is {provider.state.value}{why}"
