"""Values with their places: what a document is read into."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ._faults import Fault, Origin, Source

Report: TypeAlias = Callable[[Fault], None]
Scalar: TypeAlias = bool | int | float | str | None


@dataclass(slots=True)
class Node:
    """A value of a document, and where it stands. Read-only: documents share their nodes.

    Mappings are keyed canonically: `api_key` is found as `apiKey`.
    """

    value: "Value"
    source: Source
    line: int = 0
    """Where the value begins, counted from 1; 0 if it has no place of its own."""
    column: int = 0
    above: str = ""
    """The path of the mapping or list that holds it."""
    key: str | int | None = None
    """Its key there as spelled in the file, or its index in a list."""
    key_line: int = 0
    key_column: int = 0

    @property
    def origin(self) -> Origin:
        """The place of the value."""
        return Origin(self.source, self.line, self.column)

    @property
    def at(self) -> Origin:
        """The place of the key, or of the value if it has none."""
        if self.key_line:
            return Origin(self.source, self.key_line, self.key_column)
        return self.origin

    @property
    def name(self) -> str:
        """The key as spelled in the file; empty for a member of a list."""
        return self.key if isinstance(self.key, str) else ""

    @property
    def path(self) -> str:
        """The keys from the top, as spelled in the file."""
        return self.above if self.key is None else child_path(self.above, self.key)

    @property
    def items(self) -> "dict[str, Node]":
        """The members of a mapping; nothing for other values."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def kind(self) -> str:
        """The kind of the value in words, without the value."""
        return _KINDS.get(type(self.value), "a mapping")

    def stands_like(self, other: "Node") -> bool:
        """Whether two nodes stand in the same place."""
        return (
            self.source is other.source
            and (self.line, self.column) == (other.line, other.column)
            and (self.key_line, self.key_column) == (other.key_line, other.key_column)
        )

    def holding(self, value: "Value") -> "Node":
        """Makes a node with another value in the same place."""
        return Node(
            value,
            self.source,
            self.line,
            self.column,
            self.above,
            self.key,
            self.key_line,
            self.key_column,
        )

    def seen_first(self, spelling: str) -> str:
        """Says in a message about a second `spelling` where this key was given first."""
        place = f"first given at line {self.at.line}, column {self.at.column}"
        return f" ({place})" if self.name == spelling else f' of "{self.name}" ({place})'

    def fault(self, message: str, *, key: bool = False) -> Fault:
        """Makes a fault about the value, or about its key."""
        return Fault(origin=self.at if key else self.origin, path=self.path, message=message)


Value: TypeAlias = Scalar | tuple[Node, ...] | dict[str, Node]

_KINDS: Final[dict[type, str]] = {
    **dict.fromkeys((int, float), "a number"),
    **{type(None): "nothing", bool: "true or false", str: "text", tuple: "a list"},
}


def bare(node: Node | None) -> object:
    """Gives the value of a node without its places, keyed canonically."""
    if node is None:
        return None
    if isinstance(node.value, dict):
        return {key: bare(item) for key, item in node.value.items()}
    return [bare(item) for item in node.value] if isinstance(node.value, tuple) else node.value


def same(a: Node, b: Node) -> bool:
    """Whether two nodes mean the same, wherever they stand in their files."""
    if a is b:
        return True
    if type(a.value) is not type(b.value) or a.key != b.key:
        return False
    if a.source is not b.source and a.source.folder != b.source.folder:
        return False
    if isinstance(a.value, dict):
        others = b.items
        return a.value.keys() == others.keys() and all(
            same(item, others[key]) for key, item in a.value.items()
        )
    if isinstance(a.value, tuple):
        assert isinstance(b.value, tuple)
        return len(a.value) == len(b.value) and all(map(same, a.value, b.value))
    return a.value == b.value


def canonical(key: str) -> str:
    """Makes one of the spellings `api_key` and `apiKey`; other keys stay as they are."""
    if "_" not in key or not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", key):
        return key
    first, *others = key.split("_")
    return first + "".join(word[0].upper() + word[1:] for word in others)


def child_path(path: str, key: str | int) -> str:
    """Extends a path by a key or an index."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not re.fullmatch(r"[\w-]+", key):
        key = f'"{key}"'
    return f"{path}.{key}" if path else key
