"""Compare the generated pages of docs/reference and docs/plugins with the code, or --write them."""

import argparse
import dataclasses
import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from name_pages import CONTEXT_PAGE, names_page
from plugin_pages import plugin_pages
from terret_context import Event, event_catalog
from workspace import ROOT, members

EVENTS_PAGE: Final = ROOT / "docs" / "reference" / "events.md"
FIELDS: Final = 20
"""A payload with as many is nothing that somebody reads field by field."""

EVENTS_INTRODUCTION: Final = """\
# Events

Made from the descriptors by `scripts/catalogs.py`; `terret events` shows those of everything that
is installed. The mode says what listeners may do: `emit` and `parallel` notify, `bail` and
`serial` ask until somebody answers, `waterfall` wraps. An event with a subject is heard in one
scope, such as an agent's, only if it concerns that scope.
"""


def declared_events() -> list[Event]:
    """Import every member and return the events they declare, by package and name."""
    modules = {member.module for member in members()}
    for module in modules:
        importlib.import_module(module)
    events = (event for event in event_catalog() if event.owner in modules)
    return sorted(events, key=lambda event: (event.owner, event.name))


def constant(event: Event) -> str | None:
    """Return the public name of a descriptor in the package that owns it."""
    names = vars(importlib.import_module(event.owner)).items()
    return next((name for name, value in names if value is event), None)


def events_page() -> str:
    """Return the text of the page about events."""
    lines = [EVENTS_INTRODUCTION]
    for owner, events in groupby(declared_events(), key=lambda event: event.owner):
        lines.append(f"## {owner}\n")
        for event in events:
            lines += [f"### `{event.name}`\n", *event_lines(event), ""]
    return "\n".join(lines)


def event_lines(event: Event) -> Iterator[str]:
    options = {
        "has a subject": event.subject is not None,
        "dispatched by its owner, to plain functions": event.direct,
        "`call_next` may be called again": event.repeat,
    }
    facts = [event.mode, *(text for text, holds in options.items() if holds)]
    yield f"`{constant(event)}`: {'; '.join(facts)}. {event.doc}\n"
    for payload in event.payload:
        yield f"- payload {described(payload)}"
    if event.result is not None:
        yield f"- result `{spelled(event.result)}`"


def described(payload: object) -> str:
    """Return the name of a payload's type, with its fields if it is a record and no machine."""
    listed = dataclasses.fields(payload) if dataclasses.is_dataclass(payload) else ()
    public = [field for field in listed if not field.name.startswith("_")]
    shown = public if len(public) < FIELDS else []
    fields = [f"`{field.name}: {spelled(field.type)}`" for field in shown]
    return ": ".join([f"`{spelled(payload)}`", *([", ".join(fields)] if fields else [])])


def spelled(annotation: object) -> str:
    """Return an annotation as one writes it, without the modules of its names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text).replace("NoneType", "None")


def pages() -> dict[Path, str]:
    """Return the text that each generated page should have."""
    names = {CONTEXT_PAGE: names_page("terret_context")}
    return {EVENTS_PAGE: events_page(), **names, **plugin_pages()}


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    differs = 0
    for page, text in pages().items():
        old = page.read_text("utf-8") if page.exists() else ""
        if options.write:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, "utf-8")
        old_lines, lines = old.splitlines(True), text.splitlines(True)
        name = str(page.relative_to(ROOT))
        sys.stdout.writelines(difflib.unified_diff(old_lines, lines, name, name))
        differs |= old != text
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
