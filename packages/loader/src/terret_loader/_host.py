"""What is installed beside the harness: plugins by entry point, and the host hooks."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType
from typing import Final

import pluggy

from terret_context import Plugin, TerretError, as_plugin
from terret_loader import hooks as specs
from terret_loader._entries import entry_id
from terret_loader._faults import one_line

PLUGINS: Final = "terret.plugins"
HOOKS: Final = "terret.hooks"


class HookError(TerretError):
    """A host hook of an installed distribution failed."""

    def __init__(self, hook: str, distribution: str, error: Exception) -> None:
        self.hook = hook
        self.distribution = distribution
        super().__init__(f'{hook} of distribution "{distribution}" failed: {one_line(error)}')
        self.__cause__ = error


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """A plugin that an installed distribution offers. Nothing of it is imported before `load`."""

    name: str
    value: str
    distribution: str
    version: str

    def load(self) -> Plugin:
        """Imports it. Raises what the import raises, or `PluginDefinitionError`."""
        return as_plugin(self.load_object())

    def load_object(self) -> object:
        """Imports the object that the entry point names. Raises what the import raises."""
        return EntryPoint(self.name, self.value, PLUGINS).load()


def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """Lists the plugins of all installed distributions by name, from their metadata alone."""
    found = {
        InstalledPlugin(
            name=entry_id(point.name),
            value=point.value,
            distribution=point.dist.name if point.dist else "?",
            version=point.dist.version if point.dist else "?",
        )
        for point in entry_points(group=PLUGINS)
    }
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.distribution)))


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
        for presets in self._call("terret_presets"):
            found.update({name: Path(file) for name, file in presets.items()})
        return found

    def resolve(self, kind: str, text: str, base: Path) -> object:
        """Gives the first result of `terret_resolve`, or `None`. Raises `HookError`."""
        return self._call("terret_resolve", kind=kind, text=text, base=base)

    def commands(self, app: object) -> None:
        """Lets all distributions add their commands. Raises `HookError`."""
        self._call("terret_commands", app=app)

    def _call(self, hook: str, **arguments: object) -> list[dict[str, Path]]:
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        try:
            return caller(**arguments)  # type: ignore[no-any-return]  # what hooks give is checked by nobody
        except Exception as error:
            codes = _codes(error)
            blamed = next(
                (impl for impl in caller.get_hookimpls() if impl.function.__code__ in codes), None
            )
            raise HookError(hook, blamed.plugin_name if blamed else "?", error) from error


def load_hooks() -> Hooks:
    """Loads the hook modules of all installed distributions; broken ones are in `errors`."""
    hooks = Hooks()
    for point in entry_points(group=HOOKS):
        hooks.add(point.dist.name if point.dist else point.name, point.load)
    return hooks


def _codes(error: BaseException) -> set[CodeType]:
    codes = set()
    trace = error.__traceback__
    while trace is not None:
        codes.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    return codes
