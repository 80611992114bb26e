"""JSON Schema 2020-12, checked by a library; nothing is ever fetched."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from jsonschema_rs import Draft202012Validator, ValidationError

from terret_sessions import LosslessJsonError, copy_json

from ._errors import UnsupportedSchemaError, Violation, ViolationError

_DATA_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def compiled(
    tool: str, part: str, schema: Mapping[str, object], *, root_object: bool = False
) -> tuple[dict[str, object], Callable[[object], object]]:
    """Returns a copy of a schema and a function that returns matching values.

    The function raises `ViolationError` for any other value. Raises `UnsupportedSchemaError`.
    """

    def refuse(pointer: str, problem: str) -> UnsupportedSchemaError:
        return UnsupportedSchemaError(tool, part, pointer, problem)

    try:
        copy = copy_json(schema if isinstance(schema, dict) else dict(schema))
    except LosslessJsonError as error:
        raise refuse(error.pointer, str(error)) from None
    if root_object and copy.get("type") != "object":
        raise refuse("/type", 'the root needs "type": "object"')
    for pointer, reference in _references(copy):
        if not reference.startswith("#"):
            raise refuse(pointer, f"{reference!r} is not local, and nothing is fetched")
    try:
        validator = Draft202012Validator(copy, offline=True)
    except ValidationError as error:
        raise refuse(pointer_of(error.instance_path), error.message) from None

    def check(value: object) -> object:
        try:
            found = [
                Violation(pointer_of(e.instance_path), e.message)
                for e in validator.iter_errors(value)
            ]
        except ValueError as error:
            found = [Violation("", str(error))]
        if found:
            raise ViolationError(tuple(found))
        return value

    return copy, check


def pointer_of(path: Iterable[str | int]) -> str:
    """Returns a JSON pointer."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)


def _references(schema: object) -> Iterator[tuple[str, str]]:
    pending: list[tuple[tuple[str | int, ...], object]] = [((), schema)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, list):
            pending += [((*path, index), each) for index, each in enumerate(node)]
        elif isinstance(node, dict):
            for key, each in node.items():
                if key in _REFERENCES and isinstance(each, str):
                    yield pointer_of((*path, key)), each
                elif key not in _DATA_KEYWORDS:
                    pending.append(((*path, key), each))
