"""`terret config`: what the configuration says, and what is wrong with it."""

import json
from collections.abc import Iterable
from pathlib import Path

import typer

from terret_context import Plugin
from terret_loader import Fault, Plan, installed_plugins, load_hooks

from ._boot import Boot
from ._errors import DONE, REFUSED
from ._printing import columns, say


def check(boot: Boot) -> int:
    """Prints every fault of the configuration, or that there is none."""
    plan = boot.check()
    _complain(plan, boot)
    if plan.blocking(safe=boot.safe):
        return REFUSED
    entries = [e for e in plan.entries if not e.group and e.origin.source.label != "default"]
    skipped = {fault.entry for fault in plan.faults}
    without = f", {len(skipped)} of them with faults and left out" if skipped else ", no faults"
    typer.echo(f"{_shown(boot.file)}: {len(entries)} entries{without}")
    return DONE


def show(boot: Boot, *, origin: bool) -> int:
    """Prints the merged configuration, as a document or with the origin of each value."""
    from terret_loader.describe import merged_document, settings

    plan = boot.check()
    if plan.document is not None:
        values = list(settings(plan, env=boot.environment))
        if origin:
            rows = ((f"{value.path} = {value.text}", value.origin) for value in values)
            typer.echo("\n".join(columns(rows)))
        else:
            typer.echo(merged_document(plan), nl=False)
        if hidden := [value for value in values if value.is_hidden]:
            say(f"not shown: {', '.join(f'{v.path} ({v.origin})' for v in hidden)}")
            say("a secret is better kept in a variable: ${env:NAME}")
    _complain(plan, boot)
    return REFUSED if plan.blocking(safe=boot.safe) else DONE


def schema() -> int:
    """Prints the JSON Schema of harness.yml, for all plugins that can be imported."""
    from terret_loader.describe import harness_schema

    plugins: dict[str, Plugin] = {}
    for installed in installed_plugins():
        try:
            plugins[installed.name] = installed.load()
        except Exception as error:  # a broken installation only makes the schema poorer
            say(f"without {installed.name}: {type(error).__name__}: {error}")
    typer.echo(json.dumps(harness_schema(plugins, load_hooks().presets()), indent=2))
    return DONE


def _complain(plan: Plan, boot: Boot) -> None:
    for warning in plan.warnings:
        say(f"{warning} (warning)")
    for fault in plan.faults:
        say(str(fault))
    if boot.verbose:
        _show_tracebacks(plan.faults)


def _show_tracebacks(faults: Iterable[Fault]) -> None:
    for fault in faults:
        if fault.details:
            say(fault.details)


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
