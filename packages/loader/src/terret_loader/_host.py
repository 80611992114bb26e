"""What is installed beside the harness: plugins by entry point, and the host hooks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

import pluggy

from terret_context import Plugin, TerretError, as_plugin

from . import hooks as specs
from ._entries import entry_id
from ._faults import one_line

PLUGINS: Final = "terret.plugins"
HOOKS: Final = "terret.hooks"


class HookError(TerretError):
    """A host hook of an installed distribution failed."""

    def __init__(self, hook: str, distribution: str, error: Exception) -> None:
        self.hook = hook
        self.distribution = distribution
        super().__init__(f'{hook} of distribution "{distribution}" failed: {one_line(error)}')
        self.__cause__ = error


@dataclass(frozen=True, slots=True, order=True)
class InstalledPlugin:
    """A plugin that an installed distribution offers. Nothing of it is imported before `load`."""

    name: str
    distribution: str
    version: str
    value: str
    """The object that the entry point names."""

    def load(self) -> Plugin:
        """Imports it. Raises what the import raises, or `PluginDefinitionError`."""
        return as_plugin(self.load_object())

    def load_object(self) -> object:
        """Imports the object itself. Raises what the import raises."""
        return EntryPoint(self.name, self.value, PLUGINS).load()


def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """Lists the plugins of all installed distributions by name, from their metadata alone."""
    found = {
        InstalledPlugin(entry_id(point.name), *_owner(point), point.value)
        for point in entry_points(group=PLUGINS)
    }
    return tuple(sorted(found))


class Hooks:
    """The host hooks of the installed distributions."""

    def __init__(self) -> None:
        self.errors: list[HookError] = []
        """What is wrong with hook modules: they could not be imported, or say what no hook is."""
        self._manager = pluggy.PluginManager("terret")
        self._manager.add_hookspecs(specs)

    def add(self, name: str, load: Callable[[], object]) -> None:
        """Registers the hook module that `load` gives, under the name of its distribution."""
        try:
            self._manager.register(load(), name=name)
            self._manager.check_pending()
        except Exception as error:
            self.errors.append(HookError("a hook module", name, error))
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)

    def presets(self) -> dict[str, Path]:
        """Gives the presets of all distributions by name. Raises `HookError`."""
        found: dict[str, Path] = {}
        for owner, presets in self._results("terret_presets"):
            if not isinstance(presets, Mapping):
                raise HookError("terret_presets", owner, TypeError(f"{presets!r} is no mapping"))
            found.update(presets)
        return found

    def resolve(self, kind: str, text: str, base: Path) -> object:
        """Gives the first result of `terret_resolve`, or `None`. Raises `HookError`."""
        results = self._results("terret_resolve", kind=kind, text=text, base=base)
        return next((result for _, result in results), None)

    def commands(self, app: object) -> None:
        """Lets all distributions add their commands. Raises `HookError`."""
        for _ in self._results("terret_commands", app=app):
            pass

    def _results(self, hook: str, **arguments: object) -> Iterator[tuple[str, object]]:
        """Calls one distribution after the other, so that a failure has a name."""
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        for implementation in reversed(caller.get_hookimpls()):
            given = [arguments[name] for name in implementation.argnames]
            try:
                result: object = implementation.function(*given)
            except Exception as error:
                raise HookError(hook, implementation.plugin_name, error) from error
            if result is not None:
                yield implementation.plugin_name, result


def load_hooks() -> Hooks:
    """Loads the hook modules of all installed distributions; broken ones are in `errors`."""
    hooks = Hooks()
    for point in entry_points(group=HOOKS):
        hooks.add(_owner(point)[0], point.load)
    return hooks


def _owner(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist else ("?", "?")
