"""The pages of docs/plugins: text written by hand, and what the plugin says of itself below it."""

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from terret_context import Plugin, as_plugin
from workspace import ROOT, Member, members

FOLDER: Final = ROOT / "docs" / "plugins"
MARK: Final = "<!-- From here on: made by scripts/catalogs.py. -->"
KINDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
    "array": "list",
    "null": "nothing",
}
FORMATS: Final = {"path": "path", "password": "secret"}
MANY: Final = {"text", "whole number", "number", "mapping", "list", "path"}
LIMITS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
}

Schema = dict[str, Any]


def plugin_pages() -> dict[Path, str]:
    """Return the text that each page should have."""
    found = sorted(declared_plugins(), key=lambda one: one[0])
    pages = {FOLDER / f"{name}.md": page(name, plugin, member) for name, plugin, member in found}
    return {**pages, FOLDER / "README.md": "".join(index(found))}


def declared_plugins() -> Iterator[tuple[str, Plugin, Member]]:
    """Import every plugin that a member offers; yield it with its name."""
    for member in members():
        points = member.pyproject["project"].get("entry-points", {}).get("terret.plugins", {})
        for name, value in points.items():
            yield name, as_plugin(EntryPoint(name, value, "").load()), member


def index(found: list[tuple[str, Plugin, Member]]) -> Iterator[str]:
    yield "# Plugins\n\n"
    yield "Those of this repository; `terret plugin list` shows what is installed.\n\n"
    yield "| Plugin | Distribution | Provides | Needs |\n|---|---|---|---|\n"
    for name, plugin, member in found:
        needs = [*plugin.inject, *(f"{key} (optional)" for key in plugin.optional)]
        cells = f"{member.distribution} | {', '.join(plugin.provides)} | {', '.join(needs)}"
        yield f"| [{name}]({name}.md) | {cells} |\n"


def page(name: str, plugin: Plugin, member: Member) -> str:
    """Return what is written by hand, or a beginning for it, with the generated part."""
    path = FOLDER / f"{name}.md"
    written = path.read_text("utf-8").partition(MARK)[0] if path.exists() else ""
    return "\n".join([written.strip() or beginning(name, plugin, member), "", *facts(plugin)])


def beginning(name: str, plugin: Plugin, member: Member) -> str:
    about = summary(plugin.body) or member.pyproject["project"]["description"]
    readme = f"../../{member.place}/README.md"
    return f"# {name}\n\n{about}\n\nMore about it: [{member.distribution}]({readme})."


def facts(plugin: Plugin) -> Iterator[str]:
    yield f"{MARK}\n"
    yield "## Reference\n"
    yield f"- provides: {listed(plugin.provides)}"
    yield f"- needs: {listed(plugin.inject)}"
    yield f"- uses if it is there: {listed(plugin.optional)}\n"
    if plugin.config is None:
        yield "It has no settings.\n"
        return
    if about := summary(plugin.config):
        yield f"{about}\n"
    yield "| Setting | Value | Default | Meaning |\n|---|---|---|---|"
    yield from rows(plugin.config.model_json_schema(), plugin.config)
    yield ""


def rows(schema: Schema, model: type[BaseModel]) -> Iterator[str]:
    """Yield the rows of all settings; of nested ones below the one that holds them."""

    def below(fields: Schema, prefix: str, seen: tuple[str, ...]) -> Iterator[str]:
        for name, field in fields.get("properties", {}).items():
            required = name in fields.get("required", ())
            yield row(f"{prefix}{name}", field, schema, required=required)
            for infix, inner in nested(field, schema):
                title = str(inner.get("title"))
                if title not in seen:
                    yield from below(inner, f"{prefix}{name}{infix}.", (*seen, title))

    yield from below(schema, "", (str(schema.get("title")),))


def row(path: str, field: Schema, schema: Schema, *, required: bool) -> str:
    default = field.get("default")
    if required or default is None:
        shown = "required" if required else "none"
    elif default and any(nested(field, schema)):
        shown = "as below"
    else:
        ordered = sorted(default) if resolved(field, schema).get("uniqueItems") else default
        shown = f"`{json.dumps(ordered, ensure_ascii=False)}`"
    cells = [f"`{path}`", kind(field, schema), shown, field.get("description", "")]
    return f"| {' | '.join(' '.join(cell.split()).replace('|', '&#124;') for cell in cells)} |"


def nested(field: Schema, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the mappings with known keys inside a setting, each with how one gets there."""
    field = resolved(field, schema)
    if "properties" in field:
        yield "", field
    for option in (*field.get("anyOf", ()), *field.get("oneOf", ()), *field.get("allOf", ())):
        yield from nested(option, schema)
    for key, infix in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(inner := field.get(key), dict):
            yield from ((infix + more, found) for more, found in nested(inner, schema))


def kind(field: Schema, schema: Schema) -> str:
    """Say in words what a setting takes."""
    field = resolved(field, schema)
    options = [*field.get("anyOf", ()), *field.get("oneOf", ()), *field.get("allOf", ())]
    if options:
        kinds = dict.fromkeys(kind(option, schema) for option in options)
        return " or ".join(one for one in kinds if one != KINDS["null"]) or "nothing"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    word = KINDS.get(str(field.get("type")), "anything")
    word = FORMATS.get(str(field.get("format")), word)
    for key in ("items", "additionalProperties"):
        if isinstance(inner := field.get(key), dict):
            members = kind(inner, schema)
            word += f" of {members}{'s' if members in MANY else ''}"
    return ", ".join([word, *(text.format(field[k]) for k, text in LIMITS.items() if k in field)])


def resolved(field: Schema, schema: Schema) -> Schema:
    if "$ref" not in field:
        return field
    definition: Schema = schema["$defs"][field["$ref"].rpartition("/")[2]]
    return definition


def listed(keys: tuple[str, ...]) -> str:
    return ", ".join(f"`{key}`" for key in keys) or "nothing"


def summary(thing: object) -> str:
    """Return the first paragraph of its own docstring."""
    return " ".join(cleandoc(thing.__doc__ or "").partition("\n\n")[0].split())
