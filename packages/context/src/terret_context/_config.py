"""`Config`, and the faults of a configuration in the words of its author."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel, to_snake

from ._errors import ConfigError, ConfigFault

_WANTED: Final = {
    "bool": "true or false",
    "dict": "a mapping",
    "float": "a number",
    "int": "a whole number",
    "int_from": "a whole number",
    "list": "a list",
    "model": "a mapping",
    "string": "text",
    "tuple": "a list",
}
_KINDS: Final = (
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
    (str, "text"),
    (Mapping, "a mapping"),
    ((list, tuple), "a list"),
    (type(None), "nothing"),
)
_SCALARS: Final = ("true or false", "a number")


class Config(BaseModel):
    """The base of a plugin's configuration: frozen, strict about keys, camelCase outside."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
        defer_build=True,  # until a configuration is validated: it takes as long as all the rest
    )


def validate(model: type[BaseModel], source: object, plugin: str) -> BaseModel:
    """Returns the validated configuration. Raises `ConfigError` with every fault."""
    if isinstance(source, model):
        return source
    try:
        return model.model_validate({} if source is None else source)
    except ValidationError as error:
        faults = [_fault(model, detail) for detail in error.errors()]
        raise ConfigError(plugin, faults) from None


def _fault(model: type[BaseModel], detail: Mapping[str, object]) -> ConfigFault:
    location: Any = detail["loc"]
    path: tuple[str | int, ...] = tuple(location)
    kind = str(detail["type"])
    if kind == "extra_forbidden":
        return ConfigFault(path, "unknown key", _fields(model, path[:-1]))
    if kind == "missing":
        return ConfigFault(path, "is missing")
    wanted = _WANTED.get(kind.rpartition("_")[0])
    if wanted is not None and kind.endswith(("_type", "_parsing", "_from_float")):
        return ConfigFault(path, _wrong_type(wanted, detail["input"]))
    message = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return ConfigFault(path, message[:1].lower() + message[1:])


def _wrong_type(wanted: str, given: object) -> str:
    """Says what was expected and what kind of value came, never the value: it may be a secret."""
    got = next((name for kind, name in _KINDS if isinstance(given, kind)), type(given).__name__)
    quotes = ": write it in quotes" if wanted == "text" and got in _SCALARS else ""
    return f"expected {wanted}, got {got}{quotes}"


def _fields(model: type[BaseModel], path: tuple[object, ...]) -> tuple[str, ...]:
    here: object = model
    for part in path:
        if isinstance(part, int):
            continue
        fields = getattr(here, "model_fields", {})
        found = fields.get(part) or fields.get(to_snake(str(part)))
        here = _model_in(found.annotation) if found is not None else None
    fields = getattr(here, "model_fields", {})
    return tuple(known.alias or name for name, known in fields.items())


def _model_in(annotation: object) -> object | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    arguments = getattr(annotation, "__args__", ())
    return next((model for part in arguments if (model := _model_in(part)) is not None), None)
