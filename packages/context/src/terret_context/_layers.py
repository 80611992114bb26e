"""Registries with one global layer and one layer a scope."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from ._context import Context
from ._effects import Effect
from ._errors import DuplicateEntryError
from ._fiber import Fiber
from ._scopes import scope_chain, scope_of

K = TypeVar("K")
V = TypeVar("V")
Changed = Callable[[], object]


class _Layers(Generic[K, V]):
    """Values by key in one layer for each scope, and a global one; who owns each of them."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._layers: dict[int | None, dict[K, tuple[V, Fiber]]] = {}

    def _file(self, ctx: Context, key: K, value: V, label: str, changed: Changed | None) -> Effect:
        scope = _layer_key(scope_of(ctx))
        item = (value, ctx.fiber)

        def body() -> Callable[[], None]:
            layer = self._layers.setdefault(scope, {})
            if key in layer:
                raise DuplicateEntryError(self._what, str(key), str(layer[key][1]))
            layer[key] = item
            if changed is not None:
                try:
                    changed()
                except BaseException:
                    remove()
                    raise
            return undo

        def remove() -> None:
            layer = self._layers.get(scope, {})
            if layer.get(key) is item:
                del layer[key]
                if not layer:
                    del self._layers[scope]

        def undo() -> None:
            remove()
            if changed is not None:
                changed()

        return ctx.effect(body, label=label)

    def _layer(self, scope: int | None) -> dict[K, V]:
        return {key: value for key, (value, _) in self._layers.get(scope, {}).items()}

    def _merged(self, scope: object | None) -> dict[K, V]:
        seen: dict[K, V] = {}
        for key in (None, *reversed(tuple(map(id, scope_chain(scope))))):
            seen.update(self._layer(key))
        return seen


class NamedLayers(_Layers[str, V]):
    """Values by name. Lookup goes from a scope up its chain to the global layer; nearest wins.

    Args:
        what: what a value is, for messages, such as `"tool"`.
    """

    def add(self, ctx: Context, name: str, value: V, *, changed: Changed | None = None) -> Effect:
        """Files a value into the layer of the context's scope, owned by the context's fiber.

        `changed` is called after the insertion, and after the undo. If it raises on insertion, the
        insertion is undone. Raises `DuplicateEntryError` for a name twice in one layer.
        """
        return self._file(ctx, name, value, f'{self._what} "{name}"', changed)

    def get(self, name: str, scope: object | None = None) -> V | None:
        """Returns the nearest value of that name, or `None`."""
        for key in (*map(id, scope_chain(scope)), None):
            item = self._layers.get(key, {}).get(name)
            if item is not None:
                return item[0]
        return None

    def merged(self, scope: object | None = None) -> Mapping[str, V]:
        """Returns all values a scope sees: global first, then from the farthest ancestor on.

        A value that shadows another one keeps its position.
        """
        return MappingProxyType(self._merged(scope))

    def layer(self, scope: object | None = None) -> Mapping[str, V]:
        """Returns the values of exactly one layer."""
        return MappingProxyType(self._layer(_layer_key(scope)))


class AnonymousLayers(_Layers[object, V]):
    """Values without a name; equal ones are independent."""

    def add(self, ctx: Context, value: V, *, changed: Changed | None = None) -> Effect:
        """Files a value into the layer of the context's scope, as `NamedLayers.add` does."""
        return self._file(ctx, object(), value, self._what, changed)

    def collect(self, scope: object | None = None) -> tuple[V, ...]:
        """Returns all values a scope sees: global first, then from the farthest ancestor on."""
        return tuple(self._merged(scope).values())

    def layer(self, scope: object | None = None) -> tuple[V, ...]:
        """Returns the values of exactly one layer."""
        return tuple(self._layer(_layer_key(scope)).values())


def _layer_key(scope: object | None) -> int | None:
    return None if scope is None else id(scope)
