"""Bound views: how each caller sees a service, as itself with one slot more."""

from functools import cached_property
from typing import Any

from ._errors import PluginDefinitionError, ServiceGoneError
from ._services import Binding


class Viewable:
    """The base of objects that are handed out as bound views.

    A view is an instance of a cached subclass that shares the `__dict__` of its origin. So state,
    private names, properties and `isinstance` work, and nothing is wrapped per call.
    """

    ctx: Any
    __view_class__: type | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if vars(cls).get("__slots__"):
            raise PluginDefinitionError(
                f"{cls.__name__} has __slots__, which views would not share; leave them out"
            )
        for base in cls.__mro__:
            for name, value in vars(base).items():
                if isinstance(value, cached_property):
                    raise PluginDefinitionError(
                        f"{cls.__name__}.{name} is a functools.cached_property: views share one"
                        " `__dict__`, so it would keep the value of one caller; use a property"
                    )

    @property
    def origin(self) -> Any:
        """The service itself; store this, never a view."""
        return self

    @property
    def caller(self) -> Any:
        """The context through which this service was read; on the service itself, its own."""
        return self.ctx

    def __eq__(self, other: object) -> bool:
        return self.origin is (other.origin if isinstance(other, Viewable) else other)

    def __hash__(self) -> int:
        return id(self.origin)


class _View:
    """What a view class adds; its names are those of slots and properties of the subclass."""

    __slots__ = ()

    @property
    def origin(self) -> Any:
        return self._terret_binding.value  # type: ignore[attr-defined]  # a slot of the view class

    @property
    def caller(self) -> Any:
        binding: Binding = self._terret_binding  # type: ignore[attr-defined]  # a slot as well
        caller = self._terret_caller  # type: ignore[attr-defined]  # a slot as well
        if not (binding.live or _is_bound(caller.fiber, binding)):
            raise ServiceGoneError(binding.key, str(binding.fiber))
        return caller


def view_of(binding: Binding, ctx: object) -> Any:
    """Returns the object of a binding as `ctx` sees it."""
    service = binding.value
    if not isinstance(service, Viewable):
        return service
    view = object.__new__(_view_class(type(service)))
    view.__dict__ = service.__dict__
    view._terret_binding = binding
    view._terret_caller = ctx
    return view


def _is_bound(fiber: Any, binding: Binding) -> bool:
    """Whether a fiber still has, to the end of its unload, what was withdrawn from it."""
    return any(one in binding.consumers for one in (fiber, *fiber.ancestors()))


def _view_class(cls: type[Viewable]) -> Any:
    known = cls.__dict__.get("__view_class__")
    if known is None:
        namespace = {
            "__slots__": ("_terret_binding", "_terret_caller"),
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "__is_view__": True,
        }
        known = type(cls.__name__, (_View, cls), namespace)
        cls.__view_class__ = known
    return known
