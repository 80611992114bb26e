"""What a definition takes from Python files: tools, functions, and `agent.py` itself."""

import ast
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from terret_context import did_you_mean
from terret_loader import Fault
from terret_tools import Tool

from ._config import AgentConfig
from ._definition import RequestHook
from ._modules import ImportFaultError, Modules
from ._place import Place, whole

Sourced: TypeAlias = tuple[str, Tool]


def own_tools(place: Place, listed: Iterable[str] | None, modules: Modules) -> tuple[Tool, ...]:
    """Returns the tools of a definition in order; reports what cannot be had."""
    if listed is None:
        files = sorted((place.folder / "tools").glob("*.py"))
        found: list[Sourced] = [each for file in files for each in _tools_in(place, file, modules)]
    else:
        found = [
            each
            for index, text in enumerate(listed)
            for each in _listed(place, text, index, modules)
        ]
    return tuple(_unique(place, found))


def function_of(place: Place, key: str, text: str, modules: Modules) -> RequestHook | None:
    """Returns the function that `FILE:NAME` names; reports why there is none."""
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py"):
        place.fault(key, "expected FILE.py:FUNCTION")
        return None
    found: RequestHook | None = _attribute(place, key, None, place.path(key, file), name, modules)
    if found is not None and not callable(found):
        place.fault(key, f"{name} is no function")
        return None
    return found


def exports(place: Place, modules: Modules) -> Mapping[str, Any]:
    """Returns what an `agent.py` exports, of what a definition knows; reports its faults."""
    module = _load(place, place.file, modules)
    if module is None:
        return {}
    found = {name: vars(module)[name] for name in _EXPORTS if name in vars(module)}
    if not isinstance(found.get("config"), AgentConfig):
        what = "is no AgentConfig" if "config" in found else "is missing: export an AgentConfig"
        place.report(Fault(origin=whole(place.file), path="config", message=what))
        found.pop("config", None)
    for index, each in enumerate(found.get("tools", ())):
        if not isinstance(each, Tool):
            message = f"item {index} is no tool: decorate the function with @tool"
            place.report(Fault(origin=whole(place.file), path="tools", message=message))
            return found | {"tools": ()}
    return found


_EXPORTS = ("config", "plugin", "tools", "session_id_for", "tenant_for")


def _listed(place: Place, text: str, index: int, modules: Modules) -> Iterator[Sourced]:
    source, colon, name = text.rpartition(":")
    if text.endswith(".py"):
        path = place.path("tools", text, index)
        if path.is_file():
            yield from _tools_in(place, path, modules, hidden=True)
        else:
            place.fault("tools", "there is no such file", index)
        return
    if not colon:
        message = "expected a file such as tools/search.py, FILE.py:NAME or MODULE:NAME"
        place.fault("tools", message, index)
        return
    if source.endswith(".py"):
        path = place.path("tools", source, index)
        found = _attribute(place, "tools", index, path, name, modules)
    else:
        found = _of_module(place, index, source, name)
    if isinstance(found, Tool):
        yield text, found
    elif found is not None:
        place.fault("tools", f"{name} is no tool: decorate the function with @tool", index)


def _tools_in(
    place: Place, file: Path, modules: Modules, *, hidden: bool = False
) -> Iterator[Sourced]:
    if file.name.startswith("_") and not hidden:
        return
    module = _load(place, file, modules)
    if module is None:
        return
    imported = set(_imported_names(file))
    for name, value in vars(module).items():
        if isinstance(value, Tool) and name not in imported:
            yield str(whole(file)), value


def _imported_names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _unique(place: Place, found: Iterable[Sourced]) -> Iterator[Tool]:
    seen: dict[str, Sourced] = {}
    for source, each in found:
        if each.name not in seen:
            seen[each.name] = source, each
            yield each
        elif seen[each.name][1] is not each:
            first = seen[each.name][0]
            message = f'two tools are called "{each.name}": in {first} and in {source}'
            place.fault("tools", message)


def _of_module(place: Place, index: int, name: str, attribute: str) -> object:
    try:
        module = importlib.import_module(name)
    except Exception as error:
        text = " ".join(str(error).split())
        message = f"{name} cannot be imported: {type(error).__name__}: {text}"
        place.fault("tools", message, index)
        return None
    return _member(module, attribute, lambda message: place.fault("tools", message, index))


def _attribute(
    place: Place, key: str, index: int | None, file: Path, name: str, modules: Modules
) -> Any:
    if not file.is_file():
        place.fault(key, "there is no such file", index)
        return None
    module = _load(place, file, modules)
    if module is None:
        return None
    return _member(module, name, lambda message: place.fault(key, message, index))


def _member(module: ModuleType, name: str, report: Callable[[str], None]) -> Any:
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        report(f'there is no "{name}" in it{did_you_mean(name, public)}')
        return None
    return getattr(module, name)


def _load(place: Place, file: Path, modules: Modules) -> ModuleType | None:
    try:
        return modules.load(file, place.folder)
    except ImportFaultError as error:
        place.report(error.fault)
        return None
