"""Layers of entries: `extends`, the file, `--set`; one merged mapping comes out."""

import operator
import os
import re
from pathlib import Path
from typing import Final, TypeAlias

from terret_context import TerretError, did_you_mean

from ._entries import entry_id, normalise
from ._faults import Fault, Origin, Source
from ._host import Hooks
from ._nodes import Node, Report, canonical
from ._yaml import Piece, parse, read_document

_TOP_KEYS: Final = ("extends", "plugins")
_ENDINGS: Final = (".yml", ".yaml")


def merge(lower: Node | None, upper: Node, report: Report, warn: Report) -> Node:
    """Lays `upper` over `lower`; both stay as they are.

    Mappings merge by key, everything else replaces, `None` in a mapping removes the key. A mapping
    keeps the place in a file that it has, if the upper one has none.
    """
    if not isinstance(upper.value, dict):
        return upper
    members = dict(lower.items) if lower else {}
    for key, item in upper.items.items():
        if item.value is None:
            if members.pop(key, None) is None:
                hint = f': write "{item.name}: {{}}" to add it' if _is_entry(item) else ""
                warn(item.fault(f"null removes nothing here{hint}", key=True))
        elif key == "plugins" and lower and _is_entry(lower) and key not in members:
            message = f"{lower.name} is a plugin, not a group (see {lower.at})"
            report(item.fault(message, key=True))
        else:
            members[key] = merge(members.get(key), item, report, warn)
    if len(members) == len(upper.items) and all(
        map(operator.is_, members.values(), upper.items.values())
    ):
        return upper
    place = upper if lower is None or upper.source.positions else lower
    return place.holding(members)


def _is_entry(node: Node) -> bool:
    parent, dot, _ = node.path.rpartition(f".{node.name}")
    return bool(dot) and parent.rpartition(".")[2] == "plugins"


Readings: TypeAlias = dict[Source, tuple[Source, dict[str, Piece]]]
"""The files that were read, each with its one source and the pieces it consists of."""


class LayerReader:
    """Reads a file and what it extends, each file once."""

    def __init__(
        self, hooks: Hooks, readings: Readings, report: Report, *, if_missing: str | None = None
    ) -> None:
        self.files: dict[Path, list[Node]] = {}
        self.complete = True
        """Turns false when a layer is missing, so that what depends on it is not judged."""
        self._hooks = hooks
        self._readings = readings
        self._report = report
        self._if_missing = if_missing

    def read(self, path: Path, chain: tuple[Path, ...] = (), preset: str = "") -> list[Node]:
        """Gives the layers of a file, lowest first, its own last.

        The first file may be missing if there is a text for that case.
        """
        path = Path(os.path.abspath(path))
        if path in self.files:
            return self.files[path]
        source = Source.of_file(path, order=len(self.files), preset=preset)
        source, pieces = self._readings.setdefault(source, (source, {}))
        layers = self.files[path] = []
        root = self._document(path, source, pieces, may_be_missing=not chain)
        if root is None:
            self.complete = False
            return layers
        self._check(root)
        for node in _listed(root.items.get("extends")):
            target = self._target(node)
            if target is None:
                self.complete = False
            elif target in (*chain, path):
                circle = " -> ".join(p.name for p in (*chain, path, target))
                self._report(node.fault(f"extends itself: {circle}"))
            else:
                preset = "" if str(node.value).endswith(_ENDINGS) else str(node.value)
                layers += self.read(target, (*chain, path), preset)
        if (plugins := root.items.get("plugins")) is not None:
            layers.append(normalise(plugins, self._report))
        return layers

    def _document(
        self, path: Path, source: Source, pieces: dict[str, Piece], *, may_be_missing: bool
    ) -> Node | None:
        if may_be_missing and self._if_missing is not None and not path.exists():
            return parse(self._if_missing, source, self._report, pieces=pieces)
        return read_document(path, source, self._report, pieces)

    def _check(self, root: Node) -> None:
        if not isinstance(root.value, dict):
            self._report(root.fault(f'expected a mapping with "plugins", got {root.kind}'))
        elif not root.items:
            self._report(root.fault('nothing to run: add "plugins" or "extends"'))
        for key, item in root.items.items():
            if key not in _TOP_KEYS:
                hint = did_you_mean(item.name, _TOP_KEYS) or ': entries belong below "plugins"'
                self._report(item.fault(f"unknown key{hint}", key=True))

    def _target(self, node: Node) -> Path | None:
        name = node.value
        if not isinstance(name, str):
            message = f"expected the name of a preset or a file, got {node.kind}"
        elif name.endswith(_ENDINGS):
            target = Path(os.path.abspath(node.source.folder / name))
            if target.is_file():
                return target
            self.files[target] = []
            message = f"{name}: there is no such file"
        else:
            try:
                presets = self._hooks.presets()
            except TerretError as error:
                self._report(node.fault(str(error)))
                return None
            if name in presets:
                return Path(presets[name])
            known = ", ".join(sorted(presets)) or "none"
            hint = did_you_mean(name, presets) or f" (installed: {known}; a file ends in .yml)"
            message = f'no preset "{name}" is installed{hint}'
        self._report(node.fault(message))
        return None


def _listed(node: Node | None) -> tuple[Node, ...]:
    if node is None or node.value is None:
        return ()
    return node.value if isinstance(node.value, tuple) else (node,)


def flag_layer(flag: str, source: Source, document: Node | None, report: Report) -> Node | None:
    """Makes the layer of one `--set PATH=VALUE`; reports if that is not what it is.

    A path `ENTRY?.KEY` makes none if the document has no such entry.
    """
    path, equals, text = flag.partition("=")
    entry, is_tentative, rest = path.partition("?.")
    if is_tentative and (document is None or entry_id(entry) not in document.items):
        return None
    path = f"{entry}.{rest}" if is_tentative else path
    if equals and all(re.split(r"[./]", path)):
        return value_layer(path, text, source, report)
    report(Fault(origin=Origin(source), path=path, message="expected PATH=VALUE"))
    return None


def value_layer(path: str, text: str, source: Source, report: Report) -> Node | None:
    """Makes a layer of one value, such as that of `charts/builder.image`, from its YAML."""
    keys = path.replace("/", ".plugins.").split(".")
    keys = keys if keys[0] == "plugins" else ["plugins", *keys]
    above = [".".join(keys[:depth]) for depth in range(len(keys))]
    node = parse(text or "null", source, report, above=above.pop(), key=keys.pop())
    while node is not None and keys:
        inner = {canonical(node.name): node}
        node = Node(inner, source, node.line, node.column, above.pop(), keys.pop())
    return node and normalise(node, report)
