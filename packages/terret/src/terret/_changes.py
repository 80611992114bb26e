"""What the change of a file means for a service that runs."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

TEXTS: Final = frozenset({".md", ".txt", ".yml", ".yaml"})
_FOREIGN: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class Effect(Enum):
    """What has to be done so that a change counts."""

    RESTART = auto()
    """The process is started again, since code is imported once."""
    RECONCILE = auto()
    """harness.yml is read again."""
    RELOAD = auto()
    """The agent folders are read again."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """What a running service was made of."""

    root: Path
    env_file: Path
    documents: Collection[Path]
    """harness.yml and what it mentions."""
    modules: Collection[Path]
    """The files of all imported modules."""

    def effects(self, path: Path) -> Collection[Effect]:
        """Says what the change of a file means."""
        if path == self.env_file or self._is_imported(path):
            return (Effect.RESTART,)
        if path.suffix == ".py":  # one that is to be imported: of an agent, or of an entry
            return (Effect.RECONCILE, Effect.RELOAD)
        if path in self.documents:
            return (Effect.RECONCILE,)
        if path.is_relative_to(self.root / "agents"):
            return (Effect.RELOAD,)
        return (Effect.RECONCILE, Effect.RELOAD) if path.suffix in TEXTS else ()

    def _is_imported(self, path: Path) -> bool:
        """Whether it is a module, or the folder of one, which may be gone."""
        if path in self.modules:
            return True
        return not path.suffix and any(each.is_relative_to(path) for each in self.modules)


def real(path: Path) -> Path:
    """Returns where a file lies, behind the links on the way to it."""
    return path.parent.resolve() / path.name


def is_of_project(path: Path, root: Path, *, env_file: Path, data: Path) -> bool:
    """Whether a change matters: not what is hidden, kept, made by tools, or of an environment."""
    if path == env_file:
        return True
    if not path.is_relative_to(root) or path.is_relative_to(data):
        return False
    parts = path.relative_to(root).parts
    if any(part.startswith(".") or part in _FOREIGN or part.endswith("~") for part in parts):
        return False
    above = (root.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1))
    return not any((folder / "pyvenv.cfg").exists() for folder in above)
