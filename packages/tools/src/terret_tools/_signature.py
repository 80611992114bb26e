"""The arguments of a function: their JSON Schema, and a parser for what a model sends."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, to_json

from ._calls import ToolRun
from ._errors import Violation, ViolationError
from ._schemas import pointer_of

_REFUSED: dict[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of positional arguments",
}


class SchemaOf(GenerateJsonSchema):
    """Leaves out the titles that pydantic derives from names: a model pays for each of them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Signature:
    """What a model has to know of a function, and how its arguments become keywords.

    Fields of the model behind it are numbered, and have the names of the parameters as aliases:
    so a parameter may be called `json` or `_x`, which no pydantic field can.
    """

    def __init__(self, tool: str, fn: Callable[..., Any], described: Mapping[str, str]) -> None:
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise TypeError(f"@tool {tool}: a generator returns nothing; return all of it at once")
        signature = inspect.signature(fn, eval_str=True)
        parameters = list(signature.parameters.values())
        self.takes_run = bool(parameters) and _is_run(parameters[0])
        self.returns: object = signature.return_annotation
        if self.takes_run:
            del parameters[0]
        self._names: dict[str, str] = {}
        fields: dict[str, Any] = {}
        extra = "forbid"
        for number, parameter in enumerate(parameters):
            _check(tool, parameter)
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                extra = "allow"
                fields["__pydantic_extra__"] = (dict[str, _annotation(parameter)], ...)  # type: ignore[misc]
                continue
            self._names[f"p{number}"] = parameter.name
            fields[f"p{number}"] = _field(parameter, described.get(parameter.name))
        config = ConfigDict(extra=extra)  # type: ignore[typeddict-item]  # one of two literals
        try:
            self._model = create_model(tool, __config__=config, **fields)
            self.schema: dict[str, object] = self._model.model_json_schema(
                schema_generator=SchemaOf
            )
        except PydanticUserError as error:
            raise TypeError(f"@tool {tool}: {first_line(error)}") from error
        self.schema.pop("title", None)

    def parse(self, arguments: object) -> dict[str, Any]:
        """Returns the keywords of the call; raises `ViolationError`."""
        try:
            parsed = self._model.model_validate_json(to_json(arguments))
        except ValidationError as error:
            found = [
                Violation(_pointer(each, arguments), each["msg"])
                for each in error.errors(include_url=False, include_context=False)
            ]
            raise ViolationError(tuple(found)) from None
        values = {name: getattr(parsed, field) for field, name in self._names.items()}
        return values | (parsed.model_extra or {})


def _is_run(parameter: inspect.Parameter) -> bool:
    unnamed = parameter.annotation is inspect.Parameter.empty and parameter.name == "run"
    return unnamed or parameter.annotation is ToolRun


def first_line(error: Exception) -> str:
    """Returns what pydantic says of a type, without its advice."""
    return str(error).partition("\n")[0]


def _check(tool: str, parameter: inspect.Parameter) -> None:
    problem = _REFUSED.get(parameter.kind)
    if parameter.annotation is ToolRun:
        problem = "is the run, which must be the first parameter"
    if problem:
        raise TypeError(f"@tool {tool}: {parameter.name!r} {problem}")


def _field(parameter: inspect.Parameter, documented: str | None) -> tuple[Any, Any]:
    annotation = _annotation(parameter)
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    own = FieldInfo.from_annotation(annotation).description
    named = Field(alias=parameter.name, description=own or documented)
    return Annotated[annotation, named], default


def _annotation(parameter: inspect.Parameter) -> Any:
    return Any if parameter.annotation is inspect.Parameter.empty else parameter.annotation


def _pointer(error: ErrorDetails, value: Any) -> str:
    """Leaves the names of union members out, which are no part of the value."""
    path: list[int | str] = []
    missing = len(error["loc"]) if error["type"] == "missing" else 0
    for position, key in enumerate(error["loc"], start=1):
        try:
            value = value[key]
        except (TypeError, LookupError):
            if position != missing:
                continue
        path.append(key)
    return pointer_of(path)
