"""Bindings of services to keys, realm by realm, and who depends on them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from ._effects import Effect
from ._errors import DuplicateServiceError, InactiveFiberError
from ._keys import key_name
from ._realms import Realm, RealmMap, Slot
from ._states import ACTIVE

Labels: TypeAlias = Mapping[Any, str | None]
"""Service keys, each with the label of a realm, or `None` for a fresh one."""


class Binding:
    """An object offered under a key: the unit of change for consumers."""

    __slots__ = (
        "announced",
        "consumers",
        "fiber",
        "is_new",
        "key",
        "live",
        "realm",
        "serial",
        "value",
        "view",
    )

    def __init__(self, slot: Slot, value: object, fiber: Any, view: Any, serial: int) -> None:
        self.key, self.realm = slot
        self.value = value
        self.fiber = fiber
        self.view = view
        self.serial = serial
        self.live = True
        self.announced = self.is_new = False
        self.consumers: dict[Any, None] = {}

    @property
    def slot(self) -> Slot:
        return (self.key, self.realm)

    @property
    def offered(self) -> bool:
        """Whether fibers that do not descend from the provider may bind to it."""
        return self.live and self.fiber.state is ACTIVE


class BindingTable:
    """All bindings of a container, indexed by what a change of them has to reach."""

    def __init__(self, changed: Callable[[Binding], None]) -> None:
        self._bindings: dict[Slot, Binding] = {}
        self._dependents: dict[Slot, dict[Any, None]] = {}
        self._declared: dict[Slot, dict[Any, None]] = {}
        self._given: dict[Slot, dict[Any, None]] = {}
        self._labels: WeakValueDictionary[tuple[str, str], Realm] = WeakValueDictionary()
        self._changed = changed
        self._serial = 0
        self._fresh = 0

    def __iter__(self) -> Iterator[Binding]:
        return iter(tuple(self._bindings.values()))

    def realms(self, labels: Labels, present: Mapping[str, Realm]) -> dict[str, Realm]:
        """Returns a realm for each key: that of its label, or a fresh one that may be present."""
        named = {key_name(key): label for key, label in labels.items()}
        return {key: self._realm(key, label, present.get(key)) for key, label in named.items()}

    def _realm(self, key: str, label: str | None, present: Realm | None) -> Realm:
        if label is None:
            if present is not None and present.fresh:
                return present
            self._fresh += 1
            return Realm(f"#{self._fresh}", fresh=True)
        realm = self._labels.get((key, label))
        if realm is None:
            self._labels[key, label] = realm = Realm(label)
        return realm

    def slots(self) -> Iterator[Slot]:
        """Yields every slot that is bound, declared or needed, some more than once."""
        for index in (self._bindings, self._declared, self._dependents):
            yield from index

    def at(self, slot: Slot) -> Binding | None:
        return self._bindings.get(slot)

    def dependents(self, slot: Slot) -> tuple[Any, ...]:
        return tuple(self._dependents.get(slot, ()))

    def declared(self, slot: Slot) -> tuple[Any, ...]:
        return tuple(self._declared.get(slot, ()))

    def givers(self, slot: Slot) -> tuple[Any, ...]:
        """Returns the fibers that have a slot, have declared it, or had a descendant do so."""
        return tuple(self._given.get(slot, ()))

    def enter(self, fiber: Any) -> None:
        """Records what a fiber needs and will provide."""
        for key, _ in fiber.needs:
            self._dependents.setdefault(fiber.slot(key), {})[fiber] = None
        for key in fiber.provides:
            self._declared.setdefault(fiber.slot(key), {})[fiber] = None
            self._remember(fiber, fiber.slot(key))
        for slot in fiber.given:
            self._given.setdefault(slot, {})[fiber] = None

    def leave(self, fiber: Any) -> None:
        """Drops what `enter` recorded."""
        for key, _ in fiber.needs:
            _drop(self._dependents, fiber.slot(key), fiber)
        for key in fiber.provides:
            _drop(self._declared, fiber.slot(key), fiber)
        for slot in fiber.given:
            _drop(self._given, slot, fiber)

    def refuse_second(self, slot: Slot, fiber: Any) -> None:
        """Raises `DuplicateServiceError` if another fiber, not being disposed, has the slot."""
        binding = self._bindings.get(slot)
        if binding is not None and binding.fiber is not fiber and not binding.fiber.retiring:
            raise DuplicateServiceError(slot[0], str(binding.fiber))
        for other in self._declared.get(slot, ()):
            if other is not fiber and not other.retiring:
                raise DuplicateServiceError(slot[0], str(other))

    def add(self, slot: Slot, value: object, fiber: Any, view: Any) -> Binding:
        """Binds a slot. Raises `DuplicateServiceError` if it is taken."""
        taken = self._bindings.get(slot)
        if taken is not None:
            raise DuplicateServiceError(slot[0], str(taken.fiber))
        self._serial += 1
        binding = Binding(slot, value, fiber, view, self._serial)
        self._bindings[slot] = fiber.bindings[slot] = binding
        binding.is_new = self._remember(fiber, slot)
        self._changed(binding)
        return binding

    def _remember(self, fiber: Any, slot: Slot) -> bool:
        """Notes who has a slot, by itself or by a descendant; returns whether that is news.

        Circles through what bodies do, such as mounting a provider, show only while they are up.
        """
        is_new = False
        while fiber.parent is not None:
            if slot not in fiber.given:
                fiber.given += (slot,)
                self._given.setdefault(slot, {})[fiber] = None
                is_new = True
            fiber = fiber.parent
        return is_new

    def remove(self, binding: Binding) -> None:
        fiber = binding.fiber
        binding.live = False
        del self._bindings[binding.slot], fiber.bindings[binding.slot]
        fiber.withdrawn = tuple(one for one in (*fiber.withdrawn, binding) if one.consumers)
        self._changed(binding)

    def set_realms(self, changes: Iterable[tuple[RealmMap, Labels]]) -> tuple[Any, ...]:
        """Gives views other realms; fibers and bindings follow. Returns the fibers to evaluate.

        Raises `DuplicateServiceError`, and changes nothing, if two bindings would meet.
        """
        indexes = (self._dependents, self._declared)
        fibers = tuple(
            {fiber: None for index in indexes for one in index.values() for fiber in one}
        )
        for fiber in fibers:
            self.leave(fiber)
        changes = tuple(changes)
        before = [realms.own for realms, _ in changes]
        for realms, labels in changes:
            realms.own = self.realms(labels, realms.own)
        try:
            moves = self._moves()
        except DuplicateServiceError:
            for (realms, _), own in zip(changes, before, strict=True):
                realms.own = own
            raise
        finally:
            for fiber in fibers:
                self.enter(fiber)
        self._move(moves)
        return fibers

    def _moves(self) -> list[tuple[Binding, Slot]]:
        moves: list[tuple[Binding, Slot]] = []
        taken: dict[Slot, Binding] = {}
        for binding in self._bindings.values():
            slot = (binding.key, binding.view.realm(binding.key))
            if slot in taken:
                raise DuplicateServiceError(binding.key, str(taken[slot].fiber))
            taken[slot] = binding
            if slot != binding.slot:
                moves.append((binding, slot))
        return moves

    def _move(self, moves: Iterable[tuple[Binding, Slot]]) -> None:
        for binding, _ in moves:
            del self._bindings[binding.slot], binding.fiber.bindings[binding.slot]
        for binding, slot in moves:
            self._changed(binding)
            binding.realm = slot[1]
            self._bindings[slot] = binding.fiber.bindings[slot] = binding
            self._remember(binding.fiber, slot)
            self._changed(binding)


class Provision(Effect):
    """The effect of `ctx.provide`: undoing it withdraws the object."""

    __slots__ = ("binding",)

    def __init__(self, fiber: Any, view: Any, key: str, value: object) -> None:
        super().__init__(fiber, f'provide "{key}"')
        try:
            self.binding = fiber.kernel.table.add((key, view.realm(key)), value, fiber, view)
        except DuplicateServiceError:
            self.finish()
            raise

    def replace(self, value: object) -> None:
        """Withdraws the object and provides another one: consumers restart, once.

        Raises `InactiveFiberError` if it was withdrawn or its fiber unloads.
        """
        fiber: Any = self.owner
        fiber.kernel.check_thread("replace", self.label)
        if self._phase != "open" or not fiber.admits:
            raise InactiveFiberError(f"replace {self.label}", str(fiber), fiber.state.value)
        old, table = self.binding, fiber.kernel.table
        table.remove(old)
        self.binding = table.add(old.slot, value, fiber, old.view)

    def _release(self, errors: list[Exception]) -> None:
        fiber: Any = self.owner
        fiber.kernel.table.remove(self.binding)


def _drop(index: dict[Slot, dict[Any, None]], slot: Slot, fiber: Any) -> None:
    fibers = index.get(slot)
    if fibers is not None:
        fibers.pop(fiber, None)
        if not fibers:
            del index[slot]
