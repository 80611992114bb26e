"""`terret explain` and `terret graph`: a harness that runs, seen from inside."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import typer

from terret_context import Container, Fiber, FiberState, did_you_mean
from terret_loader import Entry, Loader

from ._boot import Boot
from ._errors import DONE, CommandError
from ._printing import columns


async def explain_entries(boot: Boot, path: str | None) -> int:
    """Prints all about one entry, or of each that does not run why."""
    async with replace(boot, safe=True, quiet=True).open(start_agents=False) as root:
        entries = {entry.path: entry for entry in root[Loader].entries if not entry.group}
        if path is None:
            rows = [row for entry in entries.values() for row in _waiting(root, entry)]
            typer.echo("\n".join(columns(rows)) or f"all {len(entries)} entries run")
        elif path in entries:
            typer.echo("\n".join(columns(_about(root, entries[path]))))
        else:
            known = ", ".join(entries)
            hint = did_you_mean(path, entries) or f" (there are: {known})"
            raise CommandError(f'there is no entry "{path}"{hint}')
    return DONE


def _waiting(root: Container, entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Says why an entry does not run; nothing if it does, or shall not."""
    loader = root[Loader]
    fiber = loader.fiber(entry.path)
    if not entry.enabled or (fiber is not None and fiber.state is FiberState.ACTIVE):
        return
    state = "skipped" if fiber is None else _since(root, fiber)
    faults = [str(fault) for fault in loader.faults if fault.entry == entry.path]
    for number, text in enumerate(faults or ["" if fiber is None else str(root.explain(fiber))]):
        yield ("" if number else entry.path, "" if number else state, text)


def _about(root: Container, entry: Entry) -> Iterator[tuple[str, str]]:
    fiber = root[Loader].fiber(entry.path)
    yield "entry", f"{entry.path} ({entry.origin})"
    if entry.plugin is not None:
        yield "plugin", entry.plugin.name
        yield "provides", ", ".join(entry.plugin.provides) or "-"
    if fiber is None:
        yield "state", "skipped" if entry.enabled else "disabled"
    else:
        yield "state", _since(root, fiber)
        yield from _links(root, fiber)
        for ago, cause in root.explain(fiber).restarts:
            yield "loaded", f"again {ago:.1f} s ago by {cause}"
    for fault in root[Loader].faults:
        if fault.entry == entry.path:
            yield "fault", str(fault)


def _links(root: Container, fiber: Fiber) -> Iterator[tuple[str, str]]:
    """Names what a fiber uses, and who uses it."""
    fibers = {row["uid"]: row for row in root.snapshot()["fibers"]}
    for key, provider in (fibers[fiber.uid]["committed"] or dict(fiber.needs)).items():
        used = fibers.get(provider)
        yield "uses", f"{key} of {_name(used)}" if used else f"{key}: not there"
    for other in fibers.values():
        keys = [key for key, uid in (other["committed"] or {}).items() if uid == fiber.uid]
        if keys:
            yield "used by", f"{_name(other)} ({', '.join(keys)})"


def _since(root: Container, fiber: Fiber) -> str:
    explanation = root.explain(fiber)
    return f"{explanation.state} for {explanation.seconds:.1f} s"


async def draw_graph(boot: Boot) -> int:
    """Prints fibers and consumer -> provider edges as a Mermaid flow chart."""
    async with replace(boot, safe=True, quiet=True).open(start_agents=False) as root:
        typer.echo("\n".join(mermaid(root.snapshot())))
    return DONE


def mermaid(snapshot: dict[str, Any]) -> Iterator[str]:
    """Draws a snapshot of a container; what is optional or missing has a dotted edge."""
    yield "flowchart LR"
    fibers = [row for row in snapshot["fibers"] if row["parent"] is not None]
    for row in fibers:
        state = "" if row["state"] == "ACTIVE" else f"<br>{row['state']}"
        yield f'  f{row["uid"]}["{_name(row)}{state}"]'
    for row in fibers:
        used: dict[int, list[str]] = {}
        for key, provider in (row["committed"] or {}).items():
            if provider is not None:
                used.setdefault(provider, []).append(key)
        for provider, keys in used.items():
            arrow = "-->" if any(row["needs"][key] for key in keys) else "-.->"
            yield f"  f{row['uid']} {arrow}|{', '.join(keys)}| f{provider}"
        if row["committed"] is None:
            for key in (key for key, required in row["needs"].items() if required):
                yield f"  f{row['uid']} -.->|{key}| missing(({key}))"


def _name(row: dict[str, Any]) -> str:
    """Names a fiber by its entry, else by its plugin."""
    return str(row["entry"] or row["plugin"]).rpartition("#")[2]
