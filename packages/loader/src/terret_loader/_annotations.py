"""What the annotations of a configuration model say about a value, before it is validated."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel

from ._nodes import canonical
from ._records import SECRETS

Annotation: TypeAlias = Any


def member(annotation: Annotation, key: str | int) -> tuple[Annotation, str | None]:
    """Gives the annotation of a member, and its name outside if it is the field of a model."""
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            for name, field in option.model_fields.items():
                outside = field.alias or name
                if isinstance(key, str) and canonical(key) in (outside, canonical(name)):
                    return field.annotation, outside
        elif isinstance(origin := get_origin(option), type) and get_args(option):
            mapping = issubclass(origin, Mapping)
            if mapping is isinstance(key, str):
                return get_args(option)[-1 if mapping else 0], None
    return object, None


def is_secret(annotation: Annotation) -> bool:
    """Whether a value of it must not be shown."""
    return any(_is_a(option, SECRETS) for option in _options(annotation))


def is_path(annotation: Annotation) -> bool:
    """Whether a text for it is a path."""
    return any(_is_a(option, (PurePath,)) for option in _options(annotation))


def _options(annotation: Annotation) -> Iterator[Annotation]:
    origin: Any = get_origin(annotation)
    if origin in (Union, UnionType):
        for option in get_args(annotation):
            yield from _options(option)
    elif origin is Annotated:
        yield from _options(get_args(annotation)[0])
    else:
        yield annotation


def _is_a(option: Annotation, kinds: tuple[type, ...]) -> bool:
    option = get_origin(option) or option
    return isinstance(option, type) and issubclass(option, kinds)
