"""The check of a whole harness: everything short of mounting it."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel

from terret_context import Plugin, TerretError, did_you_mean

from ._conflicts import conflicts
from ._entries import ENTRY_KEYS, Entry, EntryFields
from ._faults import Fault, Source, in_file_order, traceback_of
from ._host import Hooks, load_hooks
from ._interpolation import Interpolation
from ._merging import LayerReader, Readings, flag_layer, merge
from ._nodes import Node, Report, canonical, same
from ._resolving import Resolver
from ._validation import settle, validate

Model = TypeVar("Model", bound=BaseModel)

_CONTENTS: Final = ("config", "plugins")
_ENTRY: Final = Plugin(name="entry", body=lambda ctx, config: None, config=EntryFields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A checked harness: what would be mounted, in mount order, and all that is wrong with it."""

    entries: tuple[Entry, ...] = ()
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    folder: Path = Path()
    """Where the relative paths of the document begin."""
    files: frozenset[Path] = frozenset()
    """The files it was made from, those of `${file:}` included."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts that secret fields received."""
    document: Node | None = field(default=None, repr=False)
    """All layers but those of the running program, merged; `None` if a layer could not be read."""

    def blocking(self, *, safe: bool = False) -> tuple[Fault, ...]:
        """Gives the faults that stop a start; with `safe`, those of the document alone."""
        return blocking(self.faults, safe=safe)


def blocking(faults: Iterable[Fault], *, safe: bool) -> tuple[Fault, ...]:
    return tuple(f for f in faults if f.entry is None or not (safe or f.optional))


def check_document(
    path: str | Path,
    *,
    sets: Sequence[str] = (),
    defaults: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    if_missing: str | None = None,
    hooks: Hooks | None = None,
) -> Plan:
    """Checks a `harness.yml` with everything it needs; never raises for what is wrong in it.

    Imports the plugins of enabled entries, but runs no body and opens no connection. `sets` are
    texts `PATH=VALUE` that win over the files, `defaults` those that lose. `env` is the environment
    that `${env:}` sees, `os.environ` by default. `if_missing` is the document while there is no
    file.
    """
    checker = Checker(hooks, env, sets=sets, defaults=defaults, if_missing=if_missing)
    try:
        return checker.document(Path(path))
    finally:
        checker.resolver.close()


class Checker:
    """Makes plans; keeps what was imported, so that the next plan imports only what is new."""

    def __init__(
        self,
        hooks: Hooks | None,
        env: Mapping[str, str] | None,
        *,
        sets: Sequence[str],
        defaults: Sequence[str],
        if_missing: str | None = None,
    ) -> None:
        self.hooks = hooks or load_hooks()
        self.resolver = Resolver(self.hooks)
        self.env = os.environ if env is None else env
        self.sets = sets
        self.defaults = ("logging={}", *defaults)
        self.if_missing = if_missing
        self.folder = Path()
        self.known: dict[str, tuple[object, Entry]] = {}
        """By path, the entries of the last document that depend on nothing outside of it, each with
        what it inherits."""
        self.readings: Readings = {}

    def document(
        self,
        path: Path,
        *,
        above: Callable[[Node], Iterable[Node]] = lambda document: (),
    ) -> Plan:
        """Plans a file with what lies below and over it, and the layers that `above` adds."""
        source = Source.of_file(path)
        if self.folder != source.folder:
            self.folder, self.known = source.folder, {}
        faults = [Fault(origin=source.whole, message=str(error)) for error in self.hooks.errors]
        warnings: list[Fault] = []
        flag = replace(source, label="--set", order=sys.maxsize, positions=False)
        default = replace(flag, label="default")
        reader = LayerReader(self.hooks, self.readings, faults.append, if_missing=self.if_missing)
        layers = [
            *(flag_layer(text, default, None, faults.append) for text in self.defaults),
            *reader.read(path),
        ]
        if not reader.complete:
            return Plan(faults=in_file_order(faults), files=frozenset(reader.files))
        document: Node | None = None
        for layer in filter(None, layers):
            document = merge(document, layer, faults.append, warnings.append)
        assert document is not None
        for text in self.sets:
            if (flagged := flag_layer(text, flag, document, faults.append)) is not None:
                document = merge(document, flagged, faults.append, warnings.append)
        merged = document
        for layer in above(document):
            merged = merge(merged, layer, faults.append, warnings.append)
        run = _Pass(self, tuple(_ids(merged)))
        plan = run.plan(merged)
        self.known = run.known
        return replace(
            plan,
            faults=in_file_order([*faults, *plan.faults]),
            warnings=in_file_order(warnings),
            files=plan.files | set(reader.files),
            document=document,
        )

    def value(self, node: Node, model: type[Model]) -> tuple[Model | None, list[Fault], set[str]]:
        """Evaluates a node that is no entry; gives the faults, and the texts that are secrets."""
        faults: list[Fault] = []
        secrets: set[str] = set()
        values = Interpolation(self.env, self.hooks.resolve, faults.append)
        recipe = Plugin(name=model.__name__, body=lambda ctx, config: None, config=model)
        given = {} if node.value is None else values.plain(node)
        value = validate(recipe, node, given, _of_other_values(faults))
        if value is None or not isinstance(given, dict):
            return None, faults, secrets
        settled = settle(value, given, node, node.source.folder, secrets)
        return model.model_validate(settled), faults, secrets

    def entries(self, merged: Node) -> Plan:
        """Plans a merged mapping of entries."""
        return _Pass(self, tuple(_ids(merged))).plan(merged)


@dataclass(slots=True)
class _Pass:
    """One pass over all entries."""

    checker: Checker
    ids: tuple[str, ...]
    faults: list[Fault] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    known: dict[str, tuple[object, Entry]] = field(default_factory=dict)

    def plan(self, merged: Node) -> Plan:
        entries = list(self.walk(merged, Entry(path="", node=merged)))
        self.faults += conflicts(entries)
        skipped = {fault.entry for fault in self.faults}
        return Plan(
            entries=tuple(replace(e, plugin=None) if e.path in skipped else e for e in entries),
            faults=in_file_order(self.faults),
            folder=self.checker.folder,
            files=frozenset().union(*(entry.files for entry in entries)),
            secrets=frozenset(self.secrets),
        )

    def walk(self, entries: Node, outer: Entry) -> Iterator[Entry]:
        for id, node in entries.items.items():
            path = f"{outer.path}/{id}" if outer.path else id
            entry = self._as_before(path, node, outer) or self._entry(path, node, outer)
            yield entry
            if entry.group:
                yield from self.walk(node.items["plugins"], entry)

    def _as_before(self, path: str, node: Node, outer: Entry) -> Entry | None:
        """Gives the entry that an earlier pass has made of the same text, with its new place."""
        inherited, before = self.checker.known.get(path, (None, None))
        if before is None or inherited != outer.bequest or not same(before.node, node):
            return None
        entry = replace(before, node=node)
        self.known[path] = inherited, entry
        return entry

    def _entry(self, path: str, node: Node, outer: Entry) -> Entry:
        found: list[Fault] = []
        values = Interpolation(self.checker.env, self.checker.hooks.resolve, found.append)
        own = replace(node, value={k: v for k, v in node.items.items() if k not in _CONTENTS})
        given = values.plain(own)
        fields = validate(_ENTRY, own, given, _of_other_values(found)) or EntryFields()
        assert isinstance(fields, EntryFields)
        # A realm without label gets one that no document can give.
        isolated = {
            canonical(key): f"#{path}" if label is True else label
            for key, label in fields.isolate.items()
            if label
        }
        entry = Entry(
            path=path,
            node=node,
            group="plugins" in node.items,
            use=fields.use or path.rpartition("/")[2],
            enabled=fields.enabled and outer.enabled,
            optional=fields.optional or outer.optional,
            inject=tuple(canonical(key) for key, wanted in fields.inject.items() if wanted),
            own=tuple(isolated.items()),
            realms=tuple({**dict(outer.realms), **isolated}.items()),
        )
        if entry.group:
            _refuse_settings(node, found.append)
        elif entry.enabled:
            entry = self._resolved(entry, values, found)
        self.faults += (replace(f, entry=path, optional=entry.optional) for f in found)
        if not (entry.group or found or values.is_used):
            self.known[path] = outer.bequest, entry
        return replace(entry, files=frozenset(values.files)) if values.files else entry

    def _resolved(self, entry: Entry, values: Interpolation, found: list[Fault]) -> Entry:
        node = entry.node.items.get("config") or replace(entry.node, value={})
        config = values.plain(node)
        plugin = self._plugin(entry, found.append)
        if plugin is None or not isinstance(config, dict):
            return entry
        valid = validate(plugin, node, config, _of_other_values(found))
        if valid is not None:
            config = settle(valid, config, node, self.checker.folder, self.secrets)
        return replace(entry, plugin=plugin, config=config)

    def _plugin(self, entry: Entry, report: Report) -> Plugin | None:
        use = entry.node.items.get("use")
        place = use or entry.node
        base = place.source.folder
        try:
            plugin = self.checker.resolver.resolve(entry.use, base, known=self.ids)
            plugin.check_api()
        except TerretError as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else None
            fault = place.fault(str(error), key=use is None)
            details = traceback_of(cause) if cause else ""
            report(replace(fault, error=cause or error, details=details))
            return None
        return plugin


def _of_other_values(faults: list[Fault]) -> Report:
    """Reports no more of values that could not be evaluated."""
    known = {fault.path for fault in faults}
    return lambda fault: None if fault.path in known else faults.append(fault)


def _ids(entries: Node) -> Iterator[str]:
    for id, node in entries.items.items():
        yield id
        if (inner := node.items.get("plugins")) is not None:
            yield from _ids(inner)


def _refuse_settings(group: Node, report: Report) -> None:
    use, config = group.items.get("use"), group.items.get("config")
    for item in (*((use,) if use else ()), *(config.items.values() if config else ())):
        near = did_you_mean(item.name, ENTRY_KEYS) if item is not use else ""
        hint = near or f': {group.name} is a group, because it has "plugins"'
        report(item.fault(f"unknown key{hint}", key=True))
