"""Scope keys: objects, by identity, that say who sees a registration or hears an event."""

from collections.abc import Iterator
from typing import Any, Protocol
from weakref import WeakValueDictionary

from ._errors import ScopeLinkError


class ScopeRecord:
    """What is known of a scope key as long as a scope, a link or a child of it lives."""

    __slots__ = ("__weakref__", "key", "linked", "parent", "selected")

    def __init__(self, key: object) -> None:
        self.key = key
        self.parent: ScopeRecord | None = None
        self.linked = False
        self.selected: dict[str, Any] = {}


# By identity: a key need not be hashable. A record holds its key, so its id stays taken.
_records: WeakValueDictionary[int, ScopeRecord] = WeakValueDictionary()


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

    The bond ends with the link and the last scope of `key`. Raises `ScopeLinkError` for a second
    bond or a cycle.
    """
    record = _record_of(key)
    if record.linked or record.parent is not None:
        raise _has_parent(record)
    _bind(record, parent)
    record.linked = True
    return ScopeLink(record)


def scope_record(key: object) -> ScopeRecord | None:
    """Returns the record of a scope key in use."""
    return _records.get(id(key))


def open_scope(key: object, parent: object | None, above: object | None) -> ScopeRecord:
    """Takes a scope key into use as long as the record is held, below `parent` or else `above`.

    Raises `ScopeLinkError` for a cycle, or if the key has another parent than `parent`.
    """
    fresh = id(key) not in _records
    record = _record_of(key)
    if record.parent is not None:
        if parent is not None and record.parent.key is not parent:
            raise _has_parent(record)
    elif (parent := above if parent is None else parent) is not None and parent is not key:
        _bind(record, parent, fresh=fresh)
    return record


def _record_of(key: object) -> ScopeRecord:
    record = _records.get(id(key))
    if record is None:
        _records[id(key)] = record = ScopeRecord(key)
    return record


def _bind(record: ScopeRecord, parent: object | None, *, fresh: bool = False) -> None:
    above = None if parent is None else _record_of(parent)
    step = above
    while step is not None:
        if step is record:
            raise ScopeLinkError(f"the scope {record.key!r} cannot be its own ancestor")
        step = step.parent
    record.parent = above
    if not fresh:  # else no scope is below it, and nothing was selected for it
        for known in tuple(_records.values()):
            known.selected.clear()


def _has_parent(record: ScopeRecord) -> ScopeLinkError:
    return ScopeLinkError(
        f"the scope {record.key!r} has a parent already; move it by its ScopeLink"
    )
