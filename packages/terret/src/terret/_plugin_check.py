"""`terret plugin check`: what can be said of a plugin without running it."""

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from pydantic import BaseModel, ValidationError

from terret_context import (
    Event,
    Plugin,
    TerretError,
    did_you_mean,
    event_catalog,
)
from terret_loader import installed_plugins, load_plugin

from ._ending import complain
from ._errors import DONE, REFUSED, CommandError
from ._printing import say

_EVENT_METHODS: Final = ("on", "once", "emit", "parallel", "bail", "serial", "waterfall")
_ENTRY_KEYS: Final = ("config", "enabled", "inject", "isolate", "optional", "plugins", "use")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong with a plugin, or may be."""

    place: str
    message: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.message}{' (warning)' if self.is_warning else ''}"


def check_plugin(path: str, *, verbose: bool) -> int:
    """Prints what is wrong with the plugins at a path, or what each of them is."""
    code = DONE
    for use, base in _uses(path):
        try:
            plugin = load_plugin(use, base=base)
        except TerretError as error:
            complain(str(error), error.__cause__ or error, verbose)
            code = REFUSED
            continue
        findings = list(_findings(plugin))
        for finding in findings:
            say(str(finding))
        if any(not finding.is_warning for finding in findings):
            code = REFUSED
        else:
            typer.echo(f'plugin "{plugin.name}": no faults')
            typer.echo(f"  provides  {', '.join(plugin.provides) or '-'}")
            needs = [*plugin.inject, *(f"{key}?" for key in plugin.optional)]
            typer.echo(f"  needs     {', '.join(needs) or '-'}")
            fields = plugin.config.model_fields if plugin.config else {}
            settings = [field.alias or name for name, field in fields.items()]
            typer.echo(f"  settings  {', '.join(settings) or '-'}")
    return code


def _uses(path: str) -> Iterator[tuple[str, Path]]:
    """Gives what to load, and from where: of a distribution all of its entry points."""
    place = Path(path)
    if not place.is_dir():
        yield path, Path()
        return
    project = place / "pyproject.toml"
    modules = [file for file in place.glob("*.py") if not file.name.startswith("test_")]
    if project.is_file():
        data = tomllib.loads(project.read_text(encoding="utf-8"))
        points = data.get("project", {}).get("entry-points", {}).get("terret.plugins", {})
        if not points:
            raise CommandError(f"{project}: there are no entry points in the group terret.plugins")
        sys.path[:0] = [str(place.absolute() / "src"), str(place.absolute())]
        for point in points.values():
            yield point if ":" in point else f"{point}:", Path()
    elif len(modules) == 1:
        yield f"./{modules[0].name}", place
    else:
        found = ", ".join(file.name for file in modules) or "none"
        raise CommandError(f"{place}: say which file is the plugin (there are: {found})")


def _findings(plugin: Plugin) -> Iterator[Finding]:
    place = _place(plugin.body)
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", plugin.name):
        yield Finding(place=place, message=f'the name "{plugin.name}" is not words joined by "-"')
    provided = {key for one in _installed() for key in one.provides} | {"loader", "ready"}
    for key in plugin.inject:
        if key not in provided:
            hint = did_you_mean(key, provided)
            message = f'needs "{key}", which nothing that is installed provides{hint}'
            yield Finding(place=place, message=message, is_warning=True)
    if plugin.config is not None:
        yield from _config_findings(plugin.config)
    file = Path(inspect.getsourcefile(plugin.body) or "")
    package = str(getattr(plugin.body, "__module__", "")).partition(".")[0]
    files = sorted(file.parent.rglob("*.py")) if (file.parent / "__init__.py").is_file() else [file]
    for source in files:
        yield from _source_findings(source, package)
    for event in event_catalog():
        if event.owner.partition(".")[0] == package:
            yield from _event_findings(event)


def _config_findings(model: type[BaseModel]) -> Iterator[Finding]:
    place = _place(model)
    if model.model_config.get("extra") != "forbid":
        message = f"{model.__name__} accepts unknown keys: derive it from terret_context.Config"
        yield Finding(place=place, message=message)
    for name, field in model.model_fields.items():
        outside = field.alias or name
        if field.description is None:
            message = f"{model.__name__}.{name} has no description"
            yield Finding(place=place, message=message, is_warning=True)
        if outside in _ENTRY_KEYS:
            message = f'"{outside}" is a key of entries too, so it is set below "config"'
            yield Finding(place=place, message=message, is_warning=True)
    if any(field.is_required() for field in model.model_fields.values()):
        return
    try:
        defaults = {
            field.alias or name: field.get_default(call_default_factory=True)
            for name, field in model.model_fields.items()
        }
        model.model_validate(defaults)
    except ValidationError as error:
        for detail in error.errors():
            where = ".".join(map(str, detail["loc"]))
            yield Finding(place=place, message=f"default of {where}: {detail['msg']}")


def _source_findings(path: Path, package: str) -> Iterator[Finding]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            for message, is_warning in _import_faults(node, package):
                place = f"{path.name}:{line}"
                yield Finding(place=place, message=message, is_warning=is_warning)
        elif name := _event_in(node):
            known = {event.name for event in event_catalog()}
            if name not in known:
                message = f'no event "{name}"{did_you_mean(name, known)}'
                yield Finding(place=f"{path.name}:{line}", message=message)


def _import_faults(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, bool]]:
    if isinstance(node, ast.ImportFrom):
        if node.level:
            return
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        names = [alias.name for alias in node.names]
    for name in names:
        first, *parts = name.split(".")
        if first == package:
            continue
        if first.startswith("terret_plugin_"):
            yield f"imports {first}: plugins meet through services and events only", False
        elif first.startswith("terret") and any(part.startswith("_") for part in parts):
            yield f"imports {name}, which is private", False
        elif first == "asyncio":
            yield "imports asyncio: with anyio it would run on trio too", True


def _event_in(node: ast.AST) -> str:
    """Gives the event that a call names as text."""
    match node:
        case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=str(name)), *_]):
            return name if method in _EVENT_METHODS and "/" in name else ""
    return ""


def _event_findings(event: Event) -> Iterator[Finding]:
    if not re.fullmatch(r"[a-z0-9-]+(/[a-z0-9-]+)+", event.name):
        message = f'event "{event.name}" is not named area/kebab-case'
        yield Finding(place=event.owner, message=message)
    if not event.doc:
        message = f'event "{event.name}" has no doc text'
        yield Finding(place=event.owner, message=message, is_warning=True)


def _installed() -> Iterator[Plugin]:
    for installed in installed_plugins():
        try:
            yield installed.load()
        except Exception:  # `terret plugin list` tells
            continue


def _place(thing: object) -> str:
    try:
        _, line = inspect.getsourcelines(thing)  # type: ignore[arg-type]  # a function or class
        return f"{Path(inspect.getsourcefile(thing) or '?').name}:{line}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return getattr(thing, "__module__", "?")
