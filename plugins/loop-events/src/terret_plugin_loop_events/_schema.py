"""The schema of the protocol, as LoopEngine publishes it, and the check against it."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from jsonschema_rs import Draft202012Validator
from pydantic_core import from_json

from terret_context import TerretError


class InvalidLoopEventError(TerretError, ValueError):
    """An event is none of protocol v1."""

    def __init__(self, event: Mapping[str, object], problem: str) -> None:
        self.event = event
        super().__init__(f"{event.get('type')!r} is no event of protocol v1: {problem}")


def schema_bytes() -> bytes:
    """Returns the JSON Schema of protocol v1, byte for byte as published."""
    return (files("terret_plugin_loop_events") / "loop-event.schema.json").read_bytes()


def validate(event: Mapping[str, object]) -> None:
    """Checks an event strictly, formats included; raises `InvalidLoopEventError`."""
    for error in _validator().iter_errors(event):
        raise InvalidLoopEventError(event, error.message)


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(from_json(schema_bytes()), validate_formats=True, offline=True)
