"""The check of a whole harness: everything short of mounting it."""

import graphlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from terret_context import Plugin, TerretError, did_you_mean
from terret_loader._document import Node, Report, from_plain
from terret_loader._entries import ENTRY_KEYS, Entry
from terret_loader._faults import Fault, Origin, Source, in_file_order
from terret_loader._host import Hooks, load_hooks
from terret_loader._interpolation import Interpolated, Interpolation
from terret_loader._merging import LayerReader, flag_layer, merge_layers
from terret_loader._resolving import Resolver
from terret_loader._schema import settle, validate

_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A checked harness: what would be mounted, in mount order, and all that is wrong with it."""

    entries: tuple[Entry, ...] = ()
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    files: frozenset[Path] = frozenset()
    """The files it was made from, those of `${file:}` included."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values from outside that secret fields received."""
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
    env: Mapping[str, str] | None = None,
    hooks: Hooks | None = None,
) -> Plan:
    """Checks a `harness.yml` with everything it needs; never raises for what is wrong in it.

    Imports the plugins of enabled entries, but runs no body and opens no connection. `sets` are
    texts `PATH=VALUE` that win over the files. `env` is the environment that `${env:}` sees,
    `os.environ` by default.
    """
    checker = Checker(hooks or load_hooks(), os.environ if env is None else env)
    try:
        return checker.document(Path(path), sets)
    finally:
        checker.resolver.close()


class Checker:
    """Makes plans; keeps what was imported, so that the next plan imports only what is new."""

    def __init__(self, hooks: Hooks, env: Mapping[str, str]) -> None:
        self.resolver = Resolver(hooks)
        self._hooks = hooks
        self._env = env

    def document(
        self,
        path: Path,
        sets: Sequence[str],
        *,
        above: Callable[[Node], Iterable[Node]] = lambda document: (),
    ) -> Plan:
        """Plans a file with what it extends, the flags, and the layers that `above` adds."""
        whole = Origin(Source.of_file(path))
        faults = [Fault(origin=whole, message=str(error)) for error in self._hooks.errors]
        warnings: list[Fault] = []
        reader = LayerReader(self._hooks.presets, faults.append, {})
        layers = [_defaults(whole.source.folder), *reader.read(path)]
        for index, flag in enumerate(sets):
            layer = flag_layer(flag, index, whole.source.folder, faults.append)
            layers += [layer] if layer else []
        if not reader.complete:
            return Plan(faults=in_file_order(faults), files=frozenset(reader.files))
        document = merge_layers(layers, faults.append, warnings.append)
        higher = above(document)
        plan = self.entries(merge_layers([document, *higher], faults.append, warnings.append))
        return replace(
            plan,
            faults=in_file_order([*faults, *_independent(plan.faults, faults)]),
            warnings=in_file_order(warnings),
            files=plan.files | set(reader.files),
            document=document,
        )

    def entries(self, merged: Node) -> Plan:
        """Plans a merged mapping of entries."""
        run = _Run(self.resolver, self._hooks, self._env, tuple(_ids(merged)))
        entries = list(run.walk(merged, Entry(path="", node=merged)))
        for fault in (*_rivals(entries), *_cycles(entries)):
            run.faults.append(fault)
        skipped = {fault.entry for fault in run.faults}
        return Plan(
            entries=tuple(replace(e, plugin=None) if e.path in skipped else e for e in entries),
            faults=in_file_order(run.faults),
            files=frozenset().union(*(entry.files for entry in entries)),
            secrets=frozenset(run.secrets),
        )


class _Run:
    """One pass over all entries."""

    def __init__(
        self, resolver: Resolver, hooks: Hooks, env: Mapping[str, str], ids: tuple[str, ...]
    ) -> None:
        self.faults: list[Fault] = []
        self.secrets: set[str] = set()
        self._ids = ids
        self._resolver = resolver
        self._hooks = hooks
        self._env = env

    def walk(self, entries: Node, outer: Entry) -> Iterator[Entry]:
        for id, node in entries.items.items():
            entry = self._entry(f"{outer.path}/{id}".lstrip("/"), node, outer)
            yield entry
            if entry.group:
                yield from self.walk(node.items["plugins"], entry)

    def _entry(self, path: str, node: Node, outer: Entry) -> Entry:
        found: list[Fault] = []
        values = _Values(node, Interpolation(self._env, self._hooks.resolve), found.append)
        entry = Entry(
            path=path,
            node=node,
            group="plugins" in node.items,
            use=values.text("use", default=path.rpartition("/")[2]),
            enabled=values.flag("enabled", default=True) and outer.enabled,
            optional=values.flag("optional", default=False) or outer.optional,
            inject=tuple(values.keys("inject", labels=False)),
            realms=tuple({**dict(outer.realms), **values.realms(path)}.items()),
        )
        if entry.group:
            _refuse_settings(node, found.append)
        elif entry.enabled:
            entry = self._resolved(entry, values, found.append)
        self.faults += (replace(f, entry=path, optional=entry.optional) for f in found)
        return replace(entry, files=frozenset(values.interpolation.files))

    def _resolved(self, entry: Entry, values: "_Values", report: Report) -> Entry:
        config = values.config()
        plugin = self._plugin(entry, report)
        if plugin is None:
            return entry
        node = entry.node.items.get("config") or replace(entry.node, value={})
        valid = validate(plugin, node, config, report)
        if valid is not None:
            config = settle(valid, config, node, self.secrets)
        return replace(entry, plugin=plugin, config=config)

    def _plugin(self, entry: Entry, report: Report) -> Plugin | None:
        use = entry.node.items.get("use")
        place = use or entry.node
        base = place.origin.source.folder
        try:
            plugin = self._resolver.resolve(entry.use, base, known=self._ids)
            plugin.check_api()
        except TerretError as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            report(replace(place.fault(str(error), key=use is None), error=cause))
            return None
        return plugin


@dataclass(slots=True)
class _Values:
    """The evaluated fields of one entry."""

    node: Node
    interpolation: Interpolation
    report: Report

    def config(self) -> dict[str, object]:
        node = self.node.items.get("config")
        value = self.interpolation.plain(node, self.report) if node else {}
        return value if isinstance(value, dict) else {}

    def text(self, key: str, *, default: str) -> str:
        node = self.node.items.get(key)
        if node is None:
            return default
        value = self.interpolation.plain(node, self.report)
        if isinstance(value, str):
            return value
        self.report(node.fault(f"expected text, got {node.kind}"))
        return default

    def flag(self, key: str, *, default: bool) -> bool:
        node = self.node.items.get(key)
        if node is None:
            return default
        value = self.interpolation.plain(node, self.report)
        if isinstance(value, Interpolated):
            value = _TRUTH.get(value.lower())
        if isinstance(value, bool):
            return value
        self.report(node.fault(f"expected true or false, got {node.kind}"))
        return default

    def keys(self, key: str, *, labels: bool) -> dict[str, str]:
        """Gives service keys with a label each, which is empty for `true`."""
        node = self.node.items.get(key)
        wanted = "true or a label" if labels else "true"
        if node is not None and not isinstance(node.value, Mapping):
            message = f'expected a mapping such as "shell: true", got {node.kind}'
            self.report(node.fault(message))
        found: dict[str, str] = {}
        for service, item in node.items.items() if node else ():
            value = self.interpolation.plain(item, self.report)
            if value is True:
                found[service] = ""
            elif labels and isinstance(value, str) and value:
                found[service] = value
            else:
                self.report(item.fault(f"expected {wanted}, got {item.kind}"))
        return found

    def realms(self, path: str) -> dict[str, str]:
        """Labels each isolated key; a realm without label gets one that no document can give."""
        return {
            key: label or f"#{path}" for key, label in self.keys("isolate", labels=True).items()
        }


def _defaults(folder: Path) -> Node:
    source = Source(label="default", folder=folder)
    return from_plain({"logging": {}}, source, path="plugins", name="plugins")


def _independent(faults: Iterable[Fault], first: Sequence[Fault]) -> Iterator[Fault]:
    """Leaves out what only follows from a value that could not be read."""
    for fault in faults:
        source, path = fault.origin.source, fault.path
        if not any(f.origin.source == source and f.path == path for f in first):
            yield fault


def _ids(entries: Node) -> Iterator[str]:
    for id, node in entries.items.items():
        yield id
        if (inner := node.items.get("plugins")) is not None:
            yield from _ids(inner)


def _refuse_settings(group: Node, report: Report) -> None:
    if (use := group.items.get("use")) is not None:
        report(use.fault('a group has no "use": it has "plugins"', key=True))
    config = group.items.get("config")
    for item in config.items.values() if config else ():
        near = did_you_mean(item.name, ENTRY_KEYS)
        hint = near or f': {group.name} is a group, because it has "plugins"'
        report(item.fault(f"unknown key{hint}", key=True))


def _rivals(entries: Iterable[Entry]) -> Iterator[Fault]:
    """Finds two providers of one key in one realm."""
    providers: dict[tuple[str, str | None], Entry] = {}
    for entry in entries:
        for key in entry.plugin.provides if entry.plugin else ():
            first = providers.setdefault((key, entry.realm(key)), entry)
            if first is not entry:
                hint = "remove one or isolate it"
                message = f"provides {key}, as {first.path} does ({first.origin}): {hint}"
                yield _about(entry, message)


def _cycles(entries: Sequence[Entry]) -> Iterator[Fault]:
    """Finds entries that need each other."""
    providers = {
        (key, entry.realm(key)): entry.path
        for entry in entries
        for key in (entry.plugin.provides if entry.plugin else ())
    }
    by_path = {entry.path: entry for entry in entries}
    needs = {
        entry.path: {
            providers[key, entry.realm(key)]: key
            for key in (*entry.plugin.inject, *entry.inject)
            if (key, entry.realm(key)) in providers
        }
        for entry in entries
        if entry.plugin
    }
    while True:
        try:
            graphlib.TopologicalSorter(needs).prepare()
            return
        except graphlib.CycleError as error:
            ring = error.args[1][::-1][:-1]
        begin = min(range(len(ring)), key=lambda i: list(needs).index(ring[i]))
        ring = [*ring[begin:], *ring[:begin]]
        steps = (
            f"{path} needs {needs[path][after]} of {after}"
            for path, after in zip(ring, (*ring[1:], ring[0]), strict=True)
        )
        yield _about(by_path[ring[0]], f"can never start: {', '.join(steps)}")
        del needs[ring[0]]


def _about(entry: Entry, message: str) -> Fault:
    fault = entry.node.fault(message, key=True)
    return replace(fault, entry=entry.path, optional=entry.optional)
