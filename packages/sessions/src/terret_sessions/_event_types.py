from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import to_json

from ._errors import EventTypeConflictError


@dataclass(frozen=True, slots=True)
class EventType:
    """A durable type: its payload class, where it may stand and how it is read and written.

    `payload` is None for a type whose data stays a plain JSON object.
    """

    name: str
    payload: type[Any] | None
    surface: bool
    ignorable: bool
    decode: Callable[[Any], Any]
    encode: Callable[[Any], dict[str, object]]


def declare_event_type(
    name: str,
    payload: type[Any] | None = None,
    *,
    surface: bool = False,
    ignorable: bool = False,
) -> EventType:
    """Declare a durable event type at import of the package that owns it.

    A payload is a dataclass. Either it has `to_wire()` and a class method `from_wire(data)` that
    raises ValueError, or both are generated from its fields: camelCase keys, None left out, exact
    types. Without a payload class the data is a plain JSON object. `ignorable` events may be
    skipped by readers that do not know the type. A payload class may be declared for a type that
    had none; otherwise raises EventTypeConflictError if another package owns the name.
    """
    decode: Callable[[Any], Any]
    encode: Callable[[Any], dict[str, object]]
    if payload is None:
        decode, encode = plain_object, plain_object
    elif hasattr(payload, "from_wire"):
        decode, encode = payload.from_wire, payload.to_wire
    elif is_dataclass(payload):
        codec = _GeneratedCodec(payload)
        decode, encode = codec.decode, codec.encode
    else:
        raise TypeError(f"the payload of {name!r} must be a dataclass, not {payload!r}")
    return register(EventType(name, payload, surface, ignorable, decode, encode))


def register(declared: EventType) -> EventType:
    known = _TYPES.get(declared.name)
    if known is not None and not _may_follow(known, declared):
        raise EventTypeConflictError(declared.name, _owner(known), _owner(declared))
    _TYPES[declared.name] = declared
    return declared


def event_type(name: str) -> EventType | None:
    """The declaration of a type; None if no imported package made one."""
    return _TYPES.get(name)


class _GeneratedCodec:
    """Reads and writes a plain dataclass; its schema is built when it is first needed."""

    def __init__(self, payload: type[Any]) -> None:
        self._payload = payload

    def encode(self, view: object) -> dict[str, object]:
        plain = self._adapter.dump_python(view, mode="json", by_alias=True, exclude_none=True)
        return dict(plain)

    def decode(self, data: object) -> object:
        try:
            return self._adapter.validate_json(to_json(data), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            pointer = "".join(f"/{key}" for key in first["loc"])
            raise ValueError(f"{pointer}: {first['msg']}") from None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        if not hasattr(self._payload, "__pydantic_config__"):
            spelling = ConfigDict(alias_generator=to_camel, extra="forbid")
            self._payload.__pydantic_config__ = spelling
        return TypeAdapter(self._payload)


def plain_object(data: object) -> dict[str, object]:
    if type(data) is not dict:
        raise ValueError(f"the data must be an object, not {type(data).__name__}")
    return data


def _may_follow(known: EventType, declared: EventType) -> bool:
    places = (known.surface, known.ignorable) == (declared.surface, declared.ignorable)
    return places and (known.payload is None or _owner(known) == _owner(declared))


def _owner(declared: EventType) -> str:
    payload = declared.payload
    return "plain JSON" if payload is None else f"{payload.__module__}.{payload.__qualname__}"


_TYPES: dict[str, EventType] = {}
