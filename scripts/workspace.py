"""The members of this workspace, as their files describe them."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Member:
    """One distribution: a folder under packages/ or plugins/."""

    folder: Path

    @property
    def is_plugin(self) -> bool:
        return self.folder.parent.name == "plugins"

    @property
    def distribution(self) -> str:
        """The name that the layout rule gives it."""
        if self.folder.name == "terret":
            return "terret"
        return (
            f"terret-plugin-{self.folder.name}" if self.is_plugin else f"terret-{self.folder.name}"
        )

    @property
    def module(self) -> str:
        return self.distribution.replace("-", "_")

    @property
    def all_modules(self) -> list[str]:
        """The import packages of its wheel; most have one."""
        names = self.pyproject["tool"]["uv"]["build-backend"]["module-name"]
        return [names] if isinstance(names, str) else names

    @property
    def front_page(self) -> Path:
        return self.folder / "src" / self.module / "__init__.py"

    @property
    def place(self) -> str:
        return self.folder.relative_to(ROOT).as_posix()

    @property
    def sources(self) -> list[Path]:
        return sorted((self.folder / "src").rglob("*.py"))

    @property
    def tests(self) -> list[Path]:
        return sorted((self.folder / "tests").rglob("*.py"))

    @cached_property
    def pyproject(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))

    @property
    def requirements(self) -> dict[str, str]:
        """Each declared dependency with the rest of its requirement: `{"anyio": ">=4.9"}`."""
        return dict(split_requirement(text) for text in self.pyproject["project"]["dependencies"])


def split_requirement(text: str) -> tuple[str, str]:
    """Split `name>=1; marker` into the normalised name and the rest."""
    name = re.match(r"[A-Za-z0-9._-]+", text)
    assert name is not None, f"not a requirement: {text!r}"
    return normalise(name[0]), text[name.end() :].strip()


def normalise(name: str) -> str:
    """Spell a distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def members() -> list[Member]:
    """Return every folder under packages/ and plugins/, a member or a mistake."""
    folders = (f for area in ("packages", "plugins") for f in (ROOT / area).iterdir() if f.is_dir())
    return [Member(folder) for folder in sorted(folders)]


def root_pyproject() -> dict[str, Any]:
    """Return the settings of the workspace root."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def tracked_files() -> list[Path] | None:
    """Return the files that git tracks, or `None` outside a clone."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    try:
        listing = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    paths = (ROOT / name for name in listing.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a module, read once in this process."""
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def imported_modules(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of each absolute import, `from a import b` as `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def where(path: Path, line: int = 0) -> str:
    """Name a place as `folder/file.py:12`."""
    name = path.relative_to(ROOT).as_posix()
    return f"{name}:{line}" if line else name
