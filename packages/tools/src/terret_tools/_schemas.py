"""JSON Schema 2020-12, checked by a library; nothing is ever fetched."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from terret_sessions import LosslessJsonError, copy_json

from ._errors import UnsupportedSchemaError, Violation, ViolationError

_DATA_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def checked(
    tool: str, part: str, schema: Mapping[str, object], *, root_object: bool = False
) -> dict[str, object]:
    """Returns a copy of a schema. Raises `UnsupportedSchemaError` where no validator is needed.

    That is for a schema that is no JSON, has another root than it should, or a remote reference.
    """
    try:
        copy: dict[str, object] = copy_json(schema if isinstance(schema, dict) else dict(schema))
    except LosslessJsonError as error:
        raise UnsupportedSchemaError(tool, part, error.pointer, str(error)) from None
    if root_object and copy.get("type") != "object":
        raise UnsupportedSchemaError(tool, part, "/type", 'the root needs "type": "object"')
    for pointer, reference in _references(copy):
        if not reference.startswith("#"):
            problem = f"{reference!r} is not local, and nothing is fetched"
            raise UnsupportedSchemaError(tool, part, pointer, problem)
    return copy


def matcher(tool: str, part: str, schema: dict[str, object]) -> Callable[[object], object]:
    """Returns a function that returns matching values and raises `ViolationError` for others.

    Raises `UnsupportedSchemaError` for what is no schema.
    """
    from jsonschema_rs import Draft202012Validator, ValidationError  # megabytes: for foreign tools

    try:
        validator = Draft202012Validator(schema, offline=True)
    except ValidationError as error:
        pointer = pointer_of(error.instance_path)
        raise UnsupportedSchemaError(tool, part, pointer, error.message) from None

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

    return check


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
