"""The types and the schema of protocol v1 say the same."""

import types as python_types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints

import pytest
from pydantic_core import from_json

from terret_plugin_loop_events import InvalidLoopEventError, schema_bytes, types, validate
from workspace import ROOT

SCHEMA: dict[str, Any] = from_json(schema_bytes())
DEFINITIONS: dict[str, dict[str, Any]] = SCHEMA["$defs"]
DELIVERED = ROOT.parent / "shared" / "data" / "loop-event.schema.json"
SIMPLE = {str: "string", float: "number"}


def python_type(definition: str) -> Any:
    return getattr(types, definition[0].upper() + definition[1:])


def described(annotation: Any) -> dict[str, Any]:
    """The schema of a field, as its annotation says it; nested objects by their keys."""
    if get_origin(annotation) is NotRequired:
        (annotation,) = get_args(annotation)
    if get_origin(annotation) is Literal:
        words = list(get_args(annotation))
        return {"const": words[0]} if len(words) == 1 else {"enum": words}
    if get_origin(annotation) is list:
        return {"type": "array", "items": described(*get_args(annotation))}
    if get_origin(annotation) is dict:
        return {"type": "object"}
    if annotation in SIMPLE:
        return {"type": SIMPLE[annotation]}
    return {"keys": sorted(get_type_hints(annotation))}


def given(field: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a field of the schema."""
    if "$ref" in field:
        return {"keys": sorted(DEFINITIONS[field["$ref"].removeprefix("#/$defs/")]["properties"])}
    if "properties" in field:
        return {"keys": sorted(field["properties"])}
    return {key: field[key] for key in ("const", "enum", "type", "items") if key in field}


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_a_type_agrees_with_its_definition(name: str) -> None:
    """E-100: Constant, fields, required set and enums, in either direction."""
    definition, kind = DEFINITIONS[name], python_type(name)
    hints = get_type_hints(kind, include_extras=True)
    assert kind.__required_keys__ == set(definition["required"])
    assert {key: described(hint) for key, hint in hints.items()} == {
        key: given(field) for key, field in definition["properties"].items()
    }


def test_every_type_has_a_definition() -> None:
    """E-100: The union and the list of the schema name the same."""
    union = {kind.__name__ for kind in get_args(types.LoopEvent)}
    listed = {each["$ref"].rpartition("/")[2] for each in SCHEMA["oneOf"]}
    assert union == {name[0].upper() + name[1:] for name in listed}
    assert isinstance(types, python_types.ModuleType)


def test_the_schema_is_the_one_that_was_delivered() -> None:
    """Byte for byte."""
    if not DELIVERED.exists():
        pytest.skip("the folder shared/data is not there")
    assert schema_bytes() == Path(DELIVERED).read_bytes()


PENDING: dict[str, Any] = {
    "type": "approval:pending",
    "id": "p",
    "tool": "t",
    "args": {},
    "scope": {"tenant": "a", "environment": "b", "agent": "c"},
    "reason": "",
    "requestedAt": "2026-01-01T00:00:00.000Z",
}


@pytest.mark.parametrize(
    "change",
    [
        {"type": "loop:paused"},
        {"callId": "c"},
        {"requestedAt": "yesterday"},
        {"args": None},
        {"scope": {"tenant": "a", "environment": "b"}},
    ],
)
def test_a_strict_producer_refuses_what_the_schema_has_not(change: dict[str, Any]) -> None:
    """E-010: Types, fields and formats are closed; the tolerant side is the client's."""
    validate(PENDING)
    with pytest.raises(InvalidLoopEventError):
        validate(PENDING | change)
