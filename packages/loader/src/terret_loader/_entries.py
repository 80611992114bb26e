"""The entries of a harness: one form for all spellings, and the record of one entry."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import Field

from terret_context import Config, Plugin

from ._faults import Origin
from ._nodes import Node, Report

ENTRY_KEYS: Final = ("config", "enabled", "inject", "isolate", "optional", "plugins", "use")


class EntryFields(Config):
    """What an entry says of itself beside its configuration."""

    use: str | None = Field(default=None, min_length=1)
    """What to load, by default what has the name of the id: an installed plugin, `pkg.mod:attr`, or
    a file `./x.py`, `./x.py:attr` relative to this one."""
    enabled: bool = True
    """`false` keeps it from being loaded; on a group it covers all below."""
    optional: bool = False
    """`true` lets the harness start without it; on a group it covers all below."""
    inject: dict[str, bool] = Field(default={})
    """Services it waits for beside those of the plugin, as `key: true`."""
    isolate: dict[str, bool | str] = Field(default={})
    """Services that it has of its own: `key: true` for this entry alone, or `key: label` for all
    with the label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of `harness.yml`, after all layers, evaluated. It has at most one fiber."""

    path: str
    """Its place, such as `charts/chart-builder`."""
    node: Node = field(repr=False, compare=False)
    group: bool = False
    use: str = ""
    enabled: bool = True
    """False also if a group around it is disabled."""
    optional: bool = False
    """True also if a group around it is optional."""
    plugin: Plugin | None = field(default=None, repr=False)
    """What it mounts; `None` for a group, a disabled entry and one with faults."""
    config: Mapping[str, object] = field(default_factory=dict, repr=False)
    """The configuration with interpolated values: it may hold secrets."""
    inject: tuple[str, ...] = ()
    """Keys it needs beyond those of its plugin."""
    own: tuple[tuple[str, str], ...] = ()
    """Service keys that are isolated here, with the realm's label."""
    realms: tuple[tuple[str, str], ...] = ()
    """Service keys that are isolated here or in a group around it, with the realm's label."""
    files: frozenset[Path] = field(default=frozenset(), repr=False, compare=False)
    """The files that its values were read from."""

    @property
    def id(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    @property
    def bequest(self) -> tuple[object, ...]:
        """What the entries of a group have from it."""
        return self.enabled, self.optional, self.realms

    @property
    def origin(self) -> Origin:
        """Where the last layer that has it names it."""
        return self.node.at

    def __str__(self) -> str:
        return f"{Path(self.origin.source.label).name}#{self.path}"

    def realm(self, key: str) -> str | None:
        """The label of the realm in which it sees a key, `None` for the shared one."""
        return dict(self.realms).get(key)


def entry_id(name: str) -> str:
    """Makes one id of the spellings `agentLoop`, `agent_loop` and `agent-loop`."""
    if name.islower() and "_" not in name:
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def normalise(plugins: Node, report: Report) -> Node:
    """Gives entries one form: ids in kebab-case, and all settings of an entry below `config`."""
    entries: dict[str, Node] = {}
    if not isinstance(plugins.value, dict | None):
        hint = 'write "bash: {}" for an entry with its defaults'
        report(plugins.fault(f"expected a mapping of entries, got {plugins.kind}: {hint}"))
    for node in plugins.items.values():
        id = entry_id(node.name)
        if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", id):
            report(node.fault('not an entry id: use words joined by "-"', key=True))
        elif id in entries:
            report(node.fault(f"duplicate entry{entries[id].seen_first(node.name)}", key=True))
        elif (entry := _normal(node, report)) is not None:
            entries[id] = entry
    return plugins.holding(entries)


def _normal(entry: Node, report: Report) -> Node | None:
    if entry.value is None:
        return entry
    if not isinstance(entry.value, dict):
        hint = f'defaults are "{entry.name}: {{}}"'
        report(entry.fault(f"expected the settings of an entry, got {entry.kind} ({hint})"))
        return None
    fields = {key: item for key, item in entry.items.items() if key in ENTRY_KEYS}
    settings = {key: item for key, item in entry.items.items() if key not in ENTRY_KEYS}
    config = fields.get("config")
    if config is not None and not isinstance(config.value, dict | None):
        report(config.fault(f"expected a mapping of settings, got {config.kind}"))
    for key, item in config.items.items() if config else ():
        if key in settings:
            first = settings[key]
            place = f"line {first.at.line}, column {first.at.column}"
            report(item.fault(f"given twice, also as {first.path} ({place})", key=True))
        settings[key] = item
    if settings:
        fields["config"] = (config or entry).holding(settings)
    if (plugins := fields.get("plugins")) is not None:
        fields["plugins"] = normalise(plugins, report)
    return entry.holding(fields)
