"""Registries with one global layer and one layer a scope."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from ._context import Context
from ._effects import Effect
from ._errors import DuplicateEntryError
from ._fiber import Fiber
from ._scopes import scope_chain, scope_of

V = TypeVar("V")
Changed = Callable[[], object]


class NamedLayers(Generic[V]):
    """Values by name. Lookup goes from a scope up its chain to the global layer; nearest wins.

    Args:
        what: what a value is, for messages, such as `"tool"`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._layers: dict[int | None, dict[str, tuple[V, Fiber]]] = {None: {}}

    def add(self, ctx: Context, name: str, value: V, *, changed: Changed | None = None) -> Effect:
        """Files a value into the layer of the context's scope, owned by the context's fiber.

        `changed` is called after the insertion, and after the undo. If it raises on insertion, the
        insertion is undone. Raises `DuplicateEntryError` for a name twice in one layer.
        """
        key = _layer_key(scope_of(ctx))

        def insert() -> Callable[[], None]:
            layer = self._layers.setdefault(key, {})
            if name in layer:
                raise DuplicateEntryError(self._what, name, str(layer[name][1]))
            item = (value, ctx.fiber)
            layer[name] = item

            def remove() -> None:
                present = self._layers.get(key, {})
                if present.get(name) is item:
                    del present[name]
                    if not present and key is not None:
                        del self._layers[key]

            return remove

        return _insert(ctx, f'{self._what} "{name}"', insert, changed)

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
        seen: dict[str, V] = {}
        for key in (None, *reversed([id(one) for one in scope_chain(scope)])):
            seen.update({name: item[0] for name, item in self._layers.get(key, {}).items()})
        return MappingProxyType(seen)

    def layer(self, scope: object | None = None) -> Mapping[str, V]:
        """Returns the values of exactly one layer."""
        items = self._layers.get(_layer_key(scope), {})
        return MappingProxyType({name: item[0] for name, item in items.items()})


class AnonymousLayers(Generic[V]):
    """Values without a name; equal ones are independent."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._layers: dict[int | None, dict[object, V]] = {None: {}}

    def add(self, ctx: Context, value: V, *, changed: Changed | None = None) -> Effect:
        """Files a value into the layer of the context's scope, as `NamedLayers.add` does."""
        key = _layer_key(scope_of(ctx))

        def insert() -> Callable[[], None]:
            ticket = object()
            self._layers.setdefault(key, {})[ticket] = value

            def remove() -> None:
                present = self._layers.get(key, {})
                present.pop(ticket, None)
                if not present and key is not None:
                    self._layers.pop(key, None)

            return remove

        return _insert(ctx, self._what, insert, changed)

    def collect(self, scope: object | None = None) -> tuple[V, ...]:
        """Returns all values a scope sees: global first, then from the farthest ancestor on."""
        keys = (None, *reversed([id(one) for one in scope_chain(scope)]))
        return tuple(value for key in keys for value in self._layers.get(key, {}).values())

    def layer(self, scope: object | None = None) -> tuple[V, ...]:
        """Returns the values of exactly one layer."""
        return tuple(self._layers.get(_layer_key(scope), {}).values())


def _layer_key(scope: object | None) -> int | None:
    return None if scope is None else id(scope)


def _insert(
    ctx: Context, label: str, insert: Callable[[], Callable[[], None]], changed: Changed | None
) -> Effect:
    def body() -> Callable[[], None]:
        remove = insert()
        if changed is None:
            return remove
        try:
            changed()
        except BaseException:
            remove()
            raise

        def undo() -> None:
            remove()
            changed()

        return undo

    return ctx.effect(body, label=label)
