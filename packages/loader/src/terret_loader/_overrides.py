"""Values that are set while the harness runs."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from terret_context import Fiber

from ._entries import Entry
from ._faults import Fault, HarnessConfigError, Source
from ._merging import value_layer
from ._nodes import Node, bare


class Overrides:
    """Values above all files, in memory. Each holds until the files change what it lies over."""

    def __init__(self, source: Source) -> None:
        self._source = replace(source, label="runtime")
        self._layers: dict[str, Node] = {}

    def add(self, path: str, value: object) -> Callable[[], object]:
        """Sets a value such as `bash.timeout`; gives the undo. Raises `HarnessConfigError`."""
        faults: list[Fault] = []
        layer = value_layer(path, json.dumps(value), self._source, faults.append)
        if layer is None or faults:
            raise HarnessConfigError(faults)
        before, self._layers = self._layers, {**self._layers, path: layer}
        return lambda: setattr(self, "_layers", before)

    def adopt(self, entry: Entry, fiber: Fiber) -> None:
        """Adds what code has changed of an entry with `fiber.update`."""
        source = fiber.source
        if fiber.ends or source is entry.config or not isinstance(source, Mapping):
            return
        for key, value in source.items():
            if entry.config.get(key) != value:
                self.add(f"{entry.path}.config.{key}", value)

    def over(self, before: Node | None, document: Node) -> Iterable[Node]:
        """Gives the layers of values that a document has as the one before it had them."""
        return [
            layer
            for layer in self._layers.values()
            if before is None or _covered(layer, before) == _covered(layer, document)
        ]

    def drop(self, before: Node | None, document: Node | None) -> Iterable[str]:
        """Forgets the other layers; gives the paths of their values."""
        if document is None:
            return
        held = self.over(before, document)
        for path in [path for path, layer in self._layers.items() if layer not in held]:
            del self._layers[path]
            yield path


def _covered(layer: Node, document: Node | None) -> object:
    """Gives the part of a document that a layer lies over."""
    if not isinstance(layer.value, dict) or document is None:
        return bare(document)
    return {key: _covered(item, document.items.get(key)) for key, item in layer.items.items()}
