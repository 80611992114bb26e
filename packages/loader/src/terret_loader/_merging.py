"""Layers of entries: `extends`, the file, `--set`; one merged mapping comes out."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from terret_context import did_you_mean
from terret_loader._document import Node, Report, canonical, parse, read_document
from terret_loader._entries import normalise
from terret_loader._faults import Fault, Origin, Source

_FLAG_ORDER: Final = 1_000_000


def merge(lower: Node | None, upper: Node, warn: Report) -> Node:
    """Lays `upper` over `lower`; both stay as they are.

    Mappings merge by key, everything else replaces, `None` in a mapping removes the key. A mapping
    keeps the place in a file that it has, if the upper one has none.
    """
    if not isinstance(upper.value, Mapping):
        return upper
    members = dict(lower.items) if lower else {}
    for key, item in upper.items.items():
        if item.value is not None:
            members[key] = merge(members.get(key), item, warn)
        elif members.pop(key, None) is None:
            hint = f': write "{item.name}: {{}}" to add it' if _is_entry(item) else ""
            warn(item.fault(f"null removes nothing here{hint}", key=True))
    place = upper if lower is None or upper.origin.source.positions else lower
    return replace(place, value=members)


def merge_layers(layers: Iterable[Node], report: Report, warn: Report) -> Node:
    """Merges layers of entries, lowest first."""
    merged: Node | None = None
    for layer in layers:
        if merged is not None:
            _refuse_new_groups(merged, layer, report)
        merged = merge(merged, layer, warn)
    assert merged is not None
    return merged


def _is_entry(node: Node) -> bool:
    parent = node.path.removesuffix(f".{node.name}")
    return parent == "plugins" or parent.endswith(".plugins")


def _refuse_new_groups(lower: Node, upper: Node, report: Report) -> None:
    for id, entry in upper.items.items():
        below = lower.items.get(id)
        inner = entry.items.get("plugins")
        if below is None or inner is None:
            continue
        if "plugins" in below.items:
            _refuse_new_groups(below.items["plugins"], inner, report)
        else:
            report(inner.fault(f"{id} is a plugin, not a group (see {below.at})", key=True))


@dataclass(slots=True)
class LayerReader:
    """Reads a file and what it extends, each file once."""

    presets: Callable[[], Mapping[str, Path]]
    report: Report
    files: dict[Path, list[Node]]
    complete: bool = True
    """Turns false when a layer is missing, so that what depends on it is not judged."""

    def read(self, path: Path, chain: tuple[Path, ...] = ()) -> list[Node]:
        """Gives the layers of a file, lowest first, its own last."""
        path = Path(os.path.abspath(path))
        if path in self.files:
            return self.files[path]
        source = Source.of_file(path, order=len(self.files))
        layers = self.files[path] = []
        root = read_document(path, source, self.report)
        if root is None:
            self.complete = False
            return layers
        if not isinstance(root.value, Mapping):
            self.report(root.fault(f'expected a mapping with "plugins", got {root.kind}'))
        elif not root.items:
            self.report(root.fault('nothing to run: add "plugins" or "extends"'))
        self._refuse_unknown_keys(root)
        for target in self._extended(root.items.get("extends")):
            if target[1] in (*chain, path):
                circle = " -> ".join(p.name for p in (*chain, path, target[1]))
                self.report(target[0].fault(f"extends itself: {circle}"))
            else:
                layers += self.read(target[1], (*chain, path))
        if (plugins := root.items.get("plugins")) is not None:
            layers.append(normalise(plugins, self.report))
        return layers

    def _refuse_unknown_keys(self, root: Node) -> None:
        for key, item in root.items.items():
            if key not in ("extends", "plugins"):
                near = did_you_mean(item.name, ("extends", "plugins"))
                hint = near or ': entries belong below "plugins"'
                self.report(item.fault(f"unknown key{hint}", key=True))

    def _extended(self, extends: Node | None) -> Iterable[tuple[Node, Path]]:
        if extends is None:
            return
        for node in extends.value if isinstance(extends.value, tuple) else (extends,):
            target = self._target(node)
            if target is None:
                self.complete = False
            else:
                yield node, target

    def _target(self, node: Node) -> Path | None:
        name = node.value
        if not isinstance(name, str):
            self.report(node.fault(f"expected the name of a preset or a file, got {node.kind}"))
            return None
        if name.endswith((".yml", ".yaml")):
            target = Path(os.path.abspath(node.origin.source.folder / name))
            if target.is_file():
                return target
            self.report(node.fault(f"{name}: there is no such file"))
            return None
        presets = self.presets()
        if name not in presets:
            known = ", ".join(sorted(presets)) or "none"
            hint = did_you_mean(name, presets) or f" (installed: {known}; a file ends in .yml)"
            self.report(node.fault(f'no preset "{name}" is installed{hint}'))
            return None
        return presets[name]


def flag_layer(flag: str, index: int, folder: Path, report: Report) -> Node | None:
    """Makes the layer of one `--set PATH=VALUE`; `None` with a report if it is malformed."""
    source = Source(label="--set", folder=folder, order=_FLAG_ORDER + index, positions=False)
    name, equals, text = flag.partition("=")
    keys = path_keys(name)
    if not equals or not all(keys):
        report(Fault(origin=Origin(source), path=name, message="expected PATH=VALUE"))
        return None
    value = parse(text or "null", source, report, path=".".join(keys), name=keys[-1])
    return value and normalise(nest(keys[1:], value), report)


def path_keys(path: str) -> list[str]:
    """Splits `charts/builder.image` into `plugins charts plugins builder image`."""
    keys = path.replace("/", ".plugins.").split(".")
    return keys if keys[0] == "plugins" else ["plugins", *keys]


def nest(keys: list[str], value: Node) -> Node:
    """Puts a value below a path of keys."""
    for depth in range(len(keys) - 1, -1, -1):
        path = ".".join(("plugins", *keys[:depth]))
        value = Node({canonical(keys[depth]): value}, value.origin, path, path.rpartition(".")[2])
    return value
