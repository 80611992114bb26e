"""Scope keys: objects, by identity, that say who sees a registration or hears an event."""

from collections.abc import Iterator
from typing import Protocol

from ._errors import ScopeLinkError


class ScopeRecord:
    """What is known of one scope key while a scope or a link of it lives."""

    __slots__ = ("key", "link", "parent", "selected", "uses")

    def __init__(self, key: object) -> None:
        self.key = key
        self.parent: ScopeRecord | None = None
        self.link: ScopeLink | None = None
        self.uses = 0
        self.selected: dict[str, tuple[int, tuple[object, ...]]] = {}


# By identity: a key need not be hashable. A record holds its key, so its id stays taken.
_records: dict[int, ScopeRecord] = {}


class ScopeLink:
    """The bond of a scope key to its parent; whoever holds it may move it."""

    __slots__ = ("_record",)

    def __init__(self, record: ScopeRecord) -> None:
        self._record = record

    def move(self, parent: object | None) -> None:
        """Gives the scope another parent, or none. Raises `ScopeLinkError` for a cycle."""
        _bind(self._record, parent)


class Scoped(Protocol):
    """Something with a scope key, such as a `Context`."""

    @property
    def scope_key(self) -> object | None: ...


def scope_of(ctx: Scoped) -> object | None:
    """Returns the nearest scope key of a context, or `None` for an unscoped one."""
    return ctx.scope_key


def scope_chain(key: object | None) -> Iterator[object]:
    """Yields a scope key and its ancestors, nearest first."""
    record = _records.get(id(key))
    if record is None and key is not None:
        yield key
    while record is not None:
        yield record.key
        record = record.parent


def link_scope(key: object, parent: object) -> ScopeLink:
    """Binds a scope to its parent, once; only the returned link can move it.

    The bond ends with the last scope of `key`. Raises `ScopeLinkError` for a second bond or a
    cycle.
    """
    record = _records.setdefault(id(key), ScopeRecord(key))
    if record.link is not None or record.parent is not None:
        raise ScopeLinkError(f"the scope {key!r} has a parent already; move it by its ScopeLink")
    _bind(record, parent)
    record.link = ScopeLink(record)
    return record.link


def scope_record(key: object) -> ScopeRecord | None:
    """Returns the record of a scope key in use."""
    return _records.get(id(key))


def acquire_scope(key: object, parent: object | None) -> None:
    """Counts one more scope of `key` and binds its parent if it has none yet."""
    record = _records.setdefault(id(key), ScopeRecord(key))
    if parent is not None and record.parent is None and parent is not key:
        _bind(record, parent)
    record.uses += 1


def release_scope(key: object) -> None:
    """Counts one scope less; the last one takes the record along."""
    record = _records.get(id(key))
    if record is None:
        return
    record.uses -= 1
    if record.uses <= 0:
        del _records[id(key)]


def _bind(record: ScopeRecord, parent: object | None) -> None:
    above = None if parent is None else _records.setdefault(id(parent), ScopeRecord(parent))
    step = above
    while step is not None:
        if step is record:
            raise ScopeLinkError(f"the scope {record.key!r} cannot be its own ancestor")
        step = step.parent
    record.parent = above
    for known in _records.values():
        known.selected.clear()
