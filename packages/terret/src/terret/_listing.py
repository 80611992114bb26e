"""`terret plugin list` and `terret config check`: what there is, without starting it."""

import traceback

import typer

from terret_loader import installed_plugins

from ._boot import Boot
from ._errors import DONE, REFUSED
from ._screen import say


def list_plugins() -> int:
    """Prints the installed plugins with the keys they provide and need."""
    rows = [("PLUGIN", "DISTRIBUTION", "PROVIDES", "NEEDS")]
    broken = []
    for installed in installed_plugins():
        source = f"{installed.distribution} {installed.version}"
        try:
            plugin = installed.load()
        except Exception as error:  # one broken installation must not hide the others
            broken.append(f"{installed.name}: {type(error).__name__}: {error}")
            rows.append((installed.name, source, "cannot be imported", ""))
        else:
            optional = [f"{key}?" for key in plugin.optional]
            needs = ", ".join([*plugin.inject, *optional])
            rows.append((installed.name, source, ", ".join(plugin.provides), needs))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        typer.echo("  ".join([*cells, row[3]]).rstrip())
    for line in broken:
        say(line)
    return DONE


def check_config(boot: Boot) -> int:
    """Prints every fault of the configuration, or that there is none."""
    plan = boot.check()
    for warning in plan.warnings:
        say(f"{warning} (warning)")
    for fault in plan.faults:
        say(str(fault))
        if boot.verbose and fault.error is not None:
            say("".join(traceback.format_exception(fault.error)))
    if plan.blocking(safe=boot.safe):
        return REFUSED
    typer.echo(f"{boot.file}: {len(plan.entries)} entries, no faults")
    return DONE
