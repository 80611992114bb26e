"""Bindings of services to keys, realm by realm, and who depends on them."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

from ._effects import Effect, Owner
from ._errors import DuplicateServiceError


class Realm:
    """A name space for one key, by identity. The realm of an unisolated key is `None`."""

    __slots__ = ("label",)

    def __init__(self, label: str | None = None) -> None:
        self.label = label

    def __repr__(self) -> str:
        return f"<realm {self.label or hex(id(self))}>"


Slot: TypeAlias = tuple[str, Realm | None]


class Consumer(Protocol):
    """A fiber, as far as services are concerned."""

    @property
    def offers(self) -> bool: ...
    @property
    def ends(self) -> bool: ...


class Binding:
    """An object offered under a key: the unit of change for consumers."""

    __slots__ = ("consumers", "fiber", "key", "live", "realm", "serial", "value")

    def __init__(
        self, key: str, realm: Realm | None, value: object, fiber: Any, serial: int
    ) -> None:
        self.key = key
        self.realm = realm
        self.value = value
        self.fiber = fiber
        self.serial = serial
        self.live = True
        self.consumers: dict[Any, None] = {}

    @property
    def slot(self) -> Slot:
        return (self.key, self.realm)

    @property
    def offered(self) -> bool:
        """Whether fibers that do not descend from the provider may bind to it."""
        return self.live and bool(self.fiber.offers)


class BindingTable:
    """All bindings of a container, indexed by what a change of them has to reach."""

    def __init__(self, changed: Callable[[Binding], None]) -> None:
        self._bindings: dict[Slot, Binding] = {}
        self._dependents: dict[Slot, dict[Any, None]] = {}
        self._declared: dict[Slot, dict[Any, None]] = {}
        self._labels: dict[tuple[str, str], Realm] = {}
        self._changed = changed
        self._serial = 0

    def __iter__(self) -> Iterator[Binding]:
        return iter(tuple(self._bindings.values()))

    def labelled(self, key: str, label: str) -> Realm:
        """Returns the realm that every context isolated with this label shares."""
        return self._labels.setdefault((key, label), Realm(label))

    def at(self, slot: Slot) -> Binding | None:
        return self._bindings.get(slot)

    def dependents(self, slot: Slot) -> tuple[Any, ...]:
        return tuple(self._dependents.get(slot, ()))

    def declare(self, slot: Slot, fiber: Any) -> None:
        """Records that a fiber will provide a key. Raises `DuplicateServiceError`."""
        self.refuse_second(slot, fiber)
        self._declared.setdefault(slot, {})[fiber] = None

    def declared(self, slot: Slot) -> tuple[Any, ...]:
        return tuple(self._declared.get(slot, ()))

    def depend(self, slot: Slot, fiber: Any) -> None:
        self._dependents.setdefault(slot, {})[fiber] = None

    def forget(self, slot: Slot, fiber: Any) -> None:
        """Drops what `declare` and `depend` recorded."""
        for index in (self._dependents, self._declared):
            fibers = index.get(slot)
            if fibers is not None:
                fibers.pop(fiber, None)
                if not fibers:
                    del index[slot]

    def refuse_second(self, slot: Slot, fiber: Any) -> None:
        """Raises `DuplicateServiceError` if another fiber, not being disposed, has the slot."""
        binding = self._bindings.get(slot)
        if binding is not None and binding.fiber is not fiber and not binding.fiber.ends:
            raise DuplicateServiceError(slot[0], str(binding.fiber))
        for other in self._declared.get(slot, ()):
            if other is not fiber and not other.ends:
                raise DuplicateServiceError(slot[0], str(other))

    def add(self, slot: Slot, value: object, fiber: Any) -> Binding:
        """Binds a slot. Raises `DuplicateServiceError` if it is taken."""
        taken = self._bindings.get(slot)
        if taken is not None:
            raise DuplicateServiceError(slot[0], str(taken.fiber))
        self._serial += 1
        binding = Binding(*slot, value, fiber, self._serial)
        self._bindings[slot] = binding
        fiber.bindings[slot] = binding
        self._changed(binding)
        return binding

    def remove(self, binding: Binding) -> None:
        binding.live = False
        del self._bindings[binding.slot]
        del binding.fiber.bindings[binding.slot]
        self._changed(binding)

    def move(self, binding: Binding, realm: Realm | None) -> None:
        """Files a binding under another realm; its consumers there and here are told."""
        old = binding.slot
        taken = self._bindings.get((binding.key, realm))
        if taken is not None:
            raise DuplicateServiceError(binding.key, str(taken.fiber))
        del self._bindings[old], binding.fiber.bindings[old]
        self._changed(binding)
        binding.realm = realm
        self._bindings[binding.slot] = binding
        binding.fiber.bindings[binding.slot] = binding
        self._changed(binding)


class Provision(Effect):
    """The effect of `ctx.provide`: undoing it withdraws the object."""

    __slots__ = ("_table", "binding")

    def __init__(self, owner: Owner, table: BindingTable, slot: Slot, value: object) -> None:
        self._table = table
        super().__init__(owner, f'provide "{slot[0]}"')
        try:
            self.binding = table.add(slot, value, owner)
        except DuplicateServiceError:
            self._phase = "closed"
            owner.disown(self)
            raise

    def replace(self, value: object) -> None:
        """Withdraws the object and provides another one: consumers restart, once."""
        slot = self.binding.slot
        self._table.remove(self.binding)
        self.binding = self._table.add(slot, value, self.owner)

    def _release(self, errors: list[Exception]) -> None:
        self._table.remove(self.binding)
