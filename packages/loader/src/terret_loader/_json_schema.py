"""The JSON Schema of `harness.yml`, for editors."""

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic.alias_generators import to_snake
from pydantic.errors import PydanticUserError
from pydantic.json_schema import models_json_schema

from terret_context import Plugin

from ._entries import ENTRY_KEYS, EntryFields

Schema: TypeAlias = dict[str, Any]

_SHARED: Final[Schema] = {
    "evaluated": {"type": "string", "pattern": r"\$\{"},
    "removed": {"type": "null"},
}
_SKIPPED: Final = ("title", "required", "discriminator")
_LISTED: Final = ("allOf", "anyOf", "oneOf", "prefixItems")


def harness_schema(plugins: Mapping[str, Plugin], presets: Iterable[str]) -> Schema:
    """Gives the JSON Schema of a file, which may lie over others: nothing in it is required.

    `plugins` are those that an entry can name. Keys are proposed in camelCase and accepted in
    snake_case too. An entry that uses anything else may have any settings.
    """
    models: list[type[BaseModel]] = [EntryFields]
    models += {p.config for p in plugins.values() if p.config and _has_schema(p.config)}
    refs, found = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/$defs/{model}"
    )
    defs = _SHARED | {
        name: _relaxed(schema, f"#/$defs/{name}") for name, schema in found["$defs"].items()
    }
    fields = _refs("EntryFields", defs["EntryFields"]["properties"])
    for name, plugin in plugins.items():
        ref: Schema | None = None
        if plugin.config is not None:
            ref = refs[plugin.config, "validation"] if plugin.config in models else {}
        defs[f"plugin {name}"] = _plugin(plugin, ref, defs, fields)
    defs["entry"] = _entry(plugins, fields)
    defs["group"] = _object(
        {name: field for name, field in fields.items() if name != "use"}
        | {"plugins": _ref("entries")},
        additionalProperties=False,
    )
    defs["entries"] = _entries(plugins)
    layer = {"anyOf": [{"enum": sorted(presets)}, {"type": "string", "pattern": r"\.ya?ml$"}]}
    extends = {
        "description": "Presets and files below this one; later ones win.",
        "anyOf": [layer, {"type": "array", "items": layer}],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "harness.yml",
        **_object({"extends": extends, "plugins": _ref("entries")}, additionalProperties=False),
        "$defs": defs,
    }


def _entries(plugins: Iterable[str]) -> Schema:
    properties, patterns = {}, {}
    for name in plugins:
        properties[name] = {
            "if": {"anyOf": [{"required": ["use"]}, {"required": ["plugins"]}]},
            "then": _ref("entry"),
            "else": _ref(f"plugin {name}"),
        }
        if "-" in name:
            snake, camel = name.replace("-", "_"), re.sub("-(.)", lambda m: m[1].upper(), name)
            patterns[f"^({snake}|{camel})$"] = properties[name]
    return {
        "description": "What runs, in this order: an id for each entry, and its settings.",
        **_object(properties, patternProperties=patterns, additionalProperties=_ref("entry")),
    }


def _entry(plugins: Iterable[str], fields: Schema) -> Schema:
    """An entry whose id says nothing."""
    known = [
        {
            "if": {"required": ["use"], "properties": {"use": {"const": name}}},
            "then": _ref(f"plugin {name}"),
        }
        for name in plugins
    ]
    properties = {**fields, "config": {"type": ["object", "null"]}, "plugins": _ref("entries")}
    return {
        "type": ["object", "null"],
        "properties": properties,
        "if": {"type": "object", "required": ["plugins"]},
        "then": _ref("group"),
        "else": {"allOf": known},
    }


def _plugin(
    plugin: Plugin, ref: Schema | None, defs: Mapping[str, Schema], fields: Schema
) -> Schema:
    """An entry of one plugin; `ref` is the schema of its configuration, `None` if it has none."""
    name = ref["$ref"].rpartition("/")[2] if ref else ""
    config = defs.get(name, {})
    own = [key for key in config.get("properties", {}) if key not in ENTRY_KEYS]
    about = inspect.cleandoc((plugin.config or plugin.body).__doc__ or "")
    return {
        "type": ["object", "null"],
        **({"description": _flowing(about)} if about else {}),
        "properties": {**_refs(name, own), **fields, "config": ref or {"type": ["object", "null"]}},
        "patternProperties": config.get("patternProperties", {}),
        "additionalProperties": config.get("additionalProperties", ref is not None),
    }


def _relaxed(schema: Schema, at: str) -> Schema:
    """Gives a schema for a part of what it describes, in both spellings; `at` is its place."""
    result: Schema = {}
    for key, value in schema.items():
        here = f"{at}/{key}"
        if key == "properties":
            result[key] = {name: _later(item, f"{here}/{name}") for name, item in value.items()}
            snake = {name: to_snake(name) for name in value}
            result["patternProperties"] = {
                f"^{other}$": {"$ref": f"{here}/{name}"}
                for name, other in snake.items()
                if other not in value
            }
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            result[key] = _later(value, here)
        elif key in _LISTED:
            # Without what is required, several alternatives may fit.
            listed = [_relaxed(item, f"{here}/{index}") for index, item in enumerate(value)]
            result["anyOf" if key == "oneOf" else key] = listed
        elif key not in _SKIPPED:
            result[key] = _flowing(value) if key == "description" else value
    return result


def _later(schema: Schema, at: str) -> Schema:
    """Lets a value be evaluated, or removed."""
    result = _relaxed(schema, at)
    if not result.keys() - {"description", "default"}:
        return result
    about: Schema = {key: result.pop(key) for key in ("description", "default") if key in result}
    options = result["anyOf"] if result.keys() == {"anyOf"} else [result]
    if result.get("type") not in ("array", "object"):
        options = [*options, _ref("evaluated")]
    return about | {"anyOf": [o for o in options if o != {"type": "null"}] + [_ref("removed")]}


def _flowing(text: str) -> str:
    """Joins the lines of each paragraph."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def _object(properties: Schema, **others: object) -> Schema:
    return {"type": "object", "properties": properties, **others}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name.replace(' ', '%20')}"}


def _refs(definition: str, names: Iterable[str]) -> Schema:
    return {name: {"$ref": f"#/$defs/{definition}/properties/{name}"} for name in names}


def _has_schema(model: type[BaseModel]) -> bool:
    try:
        model.model_json_schema()
    except PydanticUserError:  # a field of a type that JSON does not have
        return False
    return True
