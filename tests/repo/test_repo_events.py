"""Every event is documented, typed and found under the constant that its name gives."""

import re

import pytest

from catalogs import EVENTS_PAGE, constant, declared_events, events_page
from terret_context import Event

OTHER_CONSTANTS = {
    "agent/disposed": "AGENT_DISPOSED",  # DISPOSED is the cause of a cancellation there
}


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return declared_events()


def expected_constant(event: Event) -> str:
    area, _, what = event.name.partition("/")
    name = event.name if area == "internal" else what
    return OTHER_CONSTANTS.get(event.name, re.sub("[-/]", "_", name).upper())


def test_every_event_has_doc_text_and_says_what_listeners_get(events: list[Event]) -> None:
    faults = [event.name for event in events if not event.doc.endswith((".", "?"))]
    faults += [event.name for event in events if not hasattr(event, "__orig_class__")]
    assert not faults, "\n".join(faults)


def test_every_event_is_the_public_constant_that_its_name_gives(events: list[Event]) -> None:
    wrong = {
        event.name: constant(event)
        for event in events
        if constant(event) != expected_constant(event)
    }
    assert wrong == {}


def test_the_page_about_events_is_up_to_date() -> None:
    assert EVENTS_PAGE.read_text("utf-8") == events_page(), "run: make catalogs"
