"""Where a definition says something, and its paths."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from terret_loader import Fault, Node, Origin, Source


@dataclass(frozen=True, slots=True)
class Place:
    """The file of a definition, with the places of its values if it is YAML."""

    file: Path
    node: Node | None
    root: Path
    report: Callable[[Fault], None]

    @property
    def folder(self) -> Path:
        """The agent's folder, where relative paths begin."""
        return self.file.parent

    def fault(self, key: str, message: str, index: int | None = None) -> None:
        """Reports what is wrong with the value of a key, or with one item of it."""
        node = self.node.items.get(key) if self.node is not None else None
        if node is not None and index is not None and isinstance(node.value, tuple):
            node = node.value[index]
        if node is not None:
            self.report(node.fault(message))
        else:
            origin = Origin(Source.of_file(self.file))
            self.report(Fault(origin=origin, path=key, message=message))

    def path(self, key: str, text: str, index: int | None = None) -> Path:
        """Returns an absolute path; reports a relative one that leaves the project."""
        given = os.path.expanduser(text)
        path = Path(os.path.normpath(self.folder / given))
        if not os.path.isabs(given) and not path.is_relative_to(self.root):
            message = f"the path leaves the project {self.root}: give an absolute one"
            self.fault(key, message, index)
        return path


def whole(file: Path) -> Origin:
    """Returns the origin of what concerns all of a file."""
    return Origin(Source.of_file(file))
