"""The host hooks of Terret. A distribution implements them in a module of group `terret.hooks`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pluggy

hookspec: Final = pluggy.HookspecMarker("terret")
hookimpl: Final = pluggy.HookimplMarker("terret")


@hookspec
def terret_presets() -> Mapping[str, Path]:  # type: ignore[empty-body]  # a declaration
    """Gives presets: the name that `extends` uses, and the file."""


@hookspec(firstresult=True)
def terret_resolve(kind: str, text: str, base: Path) -> object:
    """Gives what a text stands for, or `None` if this hook does not know it.

    With kind `"use"` the result is a plugin in any accepted form. Any other kind is the scheme of
    `${scheme:text}`, and the result is text. `base` is the folder of the file that holds the text.
    """


@hookspec
def terret_commands(app: object) -> None:
    """Adds commands to the command line, a `typer.Typer`."""
