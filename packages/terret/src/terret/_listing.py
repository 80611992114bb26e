"""`terret plugin list` and `terret events`: what is installed."""

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from itertools import groupby

import typer

from terret_context import Event, Plugin, event_catalog
from terret_loader import InstalledPlugin, installed_plugins, load_hooks

from ._errors import DONE
from ._printing import columns, say


def list_plugins() -> int:
    """Prints the installed plugins with the keys they provide and need, and their commands."""
    rows = [("PLUGIN", "DISTRIBUTION", "PROVIDES", "NEEDS")]
    for installed, plugin in _loaded():
        source = f"{installed.distribution} {installed.version}"
        if plugin is None:
            rows.append((installed.name, source, "cannot be imported", ""))
        else:
            needs = ", ".join([*plugin.inject, *(f"{key}?" for key in plugin.optional)])
            rows.append((installed.name, source, ", ".join(plugin.provides), needs))
    typer.echo("\n".join(columns(rows)))
    added = typer.Typer()
    load_hooks().commands(added)
    if commands := typer.main.get_group(added).commands:
        named = [(f"terret {name}", one.get_short_help_str()) for name, one in commands.items()]
        typer.echo("\n".join(["", *columns([("COMMAND", ""), *named])]))
    return DONE


def list_events(*, rows: bool) -> int:
    """Prints the events that all installed plugins declare."""
    for _ in _loaded():
        pass  # an import declares the events
    events = sorted(event_catalog(), key=lambda event: (event.owner, event.name))
    if rows:
        for event in events:
            typer.echo(json.dumps(_as_json(event)))
        return DONE
    for owner, owned in groupby(events, key=lambda event: event.owner):
        typer.echo(owner)
        for event in owned:
            typer.echo(f"  {event.name}  {event.mode}  {_signature(event)}")
            typer.echo(textwrap.indent(textwrap.fill(event.doc, 90), " " * 6))
    return DONE


def _loaded() -> Iterator[tuple[InstalledPlugin, Plugin | None]]:
    """Imports the installed plugins; one broken installation does not hide the others."""
    for installed in installed_plugins():
        plugin = None
        try:
            plugin = installed.load()
        except Exception as error:
            say(f"{installed.name}: {type(error).__name__}: {error}")
        yield installed, plugin


def _as_json(event: Event) -> dict[str, object]:
    return {
        "name": event.name,
        "mode": event.mode,
        "owner": event.owner,
        "payload": [_payload(payload) for payload in event.payload],
        "result": None if event.result is None else _spelled(event.result),
        "hasSubject": event.subject is not None,
        "direct": event.direct,
        "repeat": event.repeat,
        "doc": event.doc,
    }


def _payload(payload: object) -> dict[str, object]:
    fields = dataclasses.fields(payload) if dataclasses.is_dataclass(payload) else ()
    return {
        "type": _spelled(payload),
        "fields": {f.name: _spelled(f.type) for f in fields if not f.name.startswith("_")},
    }


def _signature(event: Event) -> str:
    payload = ", ".join(map(_spelled, event.payload)) or "nothing"
    return payload if event.result is None else f"{payload} -> {_spelled(event.result)}"


def _spelled(annotation: object) -> str:
    """Returns an annotation as one writes it, without the modules of its names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text).replace("NoneType", "None")
