"""Entries that cannot run together: rivals for one key, and entries that need each other."""

import graphlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ._entries import Entry
from ._faults import Fault


def conflicts(entries: Sequence[Entry]) -> Iterator[Fault]:
    """Finds two providers of one key in one realm, and circles of required keys."""
    providers: dict[tuple[str, str | None], Entry] = {}
    for entry in entries:
        for key in entry.plugin.provides if entry.plugin else ():
            first = providers.setdefault((key, entry.realm(key)), entry)
            if first is not entry:
                hint = "remove one or isolate it"
                yield _about(
                    entry, f"provides {key}, as {first.path} ({first.origin}) does: {hint}"
                )
    needs = {
        entry.path: {
            provider.path: key
            for key in keys
            if (provider := providers.get((key, entry.realm(key)))) is not None
        }
        for entry in entries
        if entry.plugin and (keys := (*entry.plugin.inject, *entry.inject))
    }
    by_path = {entry.path: entry for entry in entries}
    while circle := _circle(needs):
        steps = (
            f"{path} needs {needs[path][after]} of {after}"
            for path, after in zip(circle, (*circle[1:], circle[0]), strict=True)
        )
        yield _about(by_path[circle[0]], f"can never start: {', '.join(steps)}")
        del needs[circle[0]]


def _circle(needs: dict[str, dict[str, str]]) -> list[str]:
    """Gives the paths of a circle in the order of their needs, the first mounted first."""
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1][:0:-1]
        order = list(needs)
        first = min(range(len(found)), key=lambda at: order.index(found[at]))
        return [*found[first:], *found[:first]]
    return []


def _about(entry: Entry, message: str) -> Fault:
    fault = entry.node.fault(message, key=True)
    return replace(fault, entry=entry.path, optional=entry.optional)
