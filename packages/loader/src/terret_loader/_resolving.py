"""From the text of `use` to a plugin."""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from terret_context import Plugin, TerretError, as_plugin, did_you_mean

from ._faults import with_place
from ._host import Hooks, InstalledPlugin, installed_plugins, load_hooks

_BROKEN = (Exception, SystemExit)
"""How an import fails; a script without `if __name__ == "__main__"` exits."""


class UseError(TerretError):
    """A `use` leads to no plugin."""


def load_plugin(use: str, *, base: str | Path = ".", hooks: Hooks | None = None) -> Plugin:
    """Imports what an entry with this `use` in a file of folder `base` would mount.

    Raises a `TerretError` that says what is wrong; its cause is what the import raised.
    """
    plugin = Resolver(hooks or load_hooks()).resolve(use, Path(base).absolute())
    plugin.check_api()
    return plugin


def file_of(use: str) -> str | None:
    """Gives the file of a `use` such as `./jira.py:plugin`, `None` if it names no file."""
    match = re.fullmatch(r"((?:\.{0,2}/)?[^:]*\.py|\.{0,2}/[^:]*)(?::\w+)?", use)
    return match and match[1]


class Resolver:
    """Resolves each `use` once; `close()` forgets the modules of file plugins."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._installed: dict[str, list[InstalledPlugin]] = {}
        for plugin in installed_plugins():
            self._installed.setdefault(plugin.name, []).append(plugin)
        self._resolved: dict[tuple[str, Path], Plugin] = {}
        self._modules: dict[Path, str] = {}

    def resolve(self, use: str, base: Path, *, known: Iterable[str] = ()) -> Plugin:
        """Gives the plugin. Raises `UseError`, with near names of `known` and installed ones."""
        found = self._resolved.get((use, base))
        if found is None:
            found = self._resolved[use, base] = self._find(use, base, known)
        return found

    def providers(self, key: str) -> tuple[str, ...]:
        """Names the installed plugins that provide a key; imports them all."""
        found = []
        for plugin in (only for only, *_ in self._installed.values()):
            try:
                if key in plugin.load().provides:
                    found.append(plugin.name)
            except _BROKEN:  # a broken installation only means one hint less
                continue
        return tuple(found)

    def close(self) -> None:
        """Forgets the modules of file plugins."""
        for name in self._modules.values():
            sys.modules.pop(name, None)
        self._modules.clear()
        self._resolved.clear()

    def _find(self, use: str, base: Path, known: Iterable[str]) -> Plugin:
        try:
            return as_plugin(self._object(use, base, known))
        except UseError:
            raise
        except TerretError as error:
            text = re.sub(r"\b_terret_file_\w+", use.partition(":")[0], str(error))
            raise UseError(text if use in text else f"{use}: {text}") from error

    def _object(self, use: str, base: Path, known: Iterable[str]) -> object:
        if (file := file_of(use)) is not None:
            name = use[len(file) + 1 :] or None
            return _attribute(
                self._file_module(use, Path(os.path.normpath(base / file))), name, use
            )
        if use in self._installed:
            return self._entry_point(use)
        if (found := self._hooks.resolve("use", use, base)) is not None:
            return found
        module = re.fullmatch(r"(\w+(?:\.\w+)+|\w+(?=:))(?::(\w*))?", use)
        if module is not None:
            return _attribute(_module(use, module[1]), module[2] or None, use)
        near = did_you_mean(use, {*known, *self._installed} - {use})
        raise UseError(f'no plugin "{use}" is installed{near or ": see `terret plugin list`"}')

    def _entry_point(self, name: str) -> object:
        only, *others = self._installed[name]
        if others:
            owners = ", ".join(plugin.distribution for plugin in (only, *others))
            raise UseError(f'"{name}" is offered by several distributions: {owners}')
        try:
            return only.load_object()
        except _BROKEN as error:
            raise UseError(f"{name} ({only.distribution}): {with_place(error)}") from error

    def _file_module(self, use: str, path: Path) -> ModuleType:
        if path in self._modules:
            return sys.modules[self._modules[path]]
        if not path.is_file():
            raise UseError(f"{use}: there is no such file")
        digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
        name = f"_terret_file_{digest}_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UseError(f"{use}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except _BROKEN as error:
            sys.modules.pop(name, None)
            raise UseError(f"{use}: {with_place(error, use)}") from error
        self._modules[path] = name
        return module


def _module(use: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise UseError(f'{use}: no module "{error.name}" is installed') from error
        raise UseError(f"{use}: {with_place(error, use)}") from error
    except _BROKEN as error:
        raise UseError(f"{use}: {with_place(error, use)}") from error


def _attribute(module: ModuleType, name: str | None, use: str) -> object:
    if name is None:
        return module
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        raise UseError(f'{use}: there is no "{name}" in it{did_you_mean(name, public)}')
    return getattr(module, name)
