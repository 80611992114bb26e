"""Producers are strict, and consumers take what they do not know."""

from collections.abc import Mapping
from typing import Any

import pytest

from terret_client import Event
from terret_plugin_loop_events import InvalidLoopEventError, validate

DONE = {"type": "done", "text": "hi"}


@pytest.mark.parametrize(
    "event",
    [{**DONE, "mood": "good"}, {"type": "loop:dreamt", "of": "sheep"}],
    ids=["a further field", "a further type"],
)
def test_what_the_schema_refuses_the_parser_keeps(event: Mapping[str, Any]) -> None:
    """E-012, E-013."""
    validate(DONE)
    with pytest.raises(InvalidLoopEventError):
        validate(event)
    read = Event.of(event)
    assert (read.type, read.data) == (event["type"], event)
