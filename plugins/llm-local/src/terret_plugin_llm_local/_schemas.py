from collections.abc import Mapping, Sequence
from typing import cast

JsonSchema = Mapping[str, object]


def properties_of(schema: JsonSchema) -> Mapping[str, JsonSchema]:
    """The properties of an object schema."""
    return cast("Mapping[str, JsonSchema]", schema.get("properties", {}))


def required_of(schema: JsonSchema) -> Sequence[str]:
    """The names an object must have."""
    return cast("Sequence[str]", schema.get("required", ()))


def kind_of(schema: JsonSchema) -> str:
    """`enum`, or the first type that is not null, or an empty text for anything else."""
    if "enum" in schema:
        return "enum"
    types = schema.get("type", ())
    for each in (types,) if isinstance(types, str) else cast("Sequence[str]", types):
        if each != "null":
            return each
    for key in ("anyOf", "oneOf"):
        for part in cast("Sequence[JsonSchema]", schema.get(key, ())):
            if kind := kind_of(part):
                return kind
    return ""


def choice(values: Sequence[object]) -> JsonSchema | None:
    """A schema that allows these values only; None if there are none."""
    return {"enum": list(values)} if values else None
