"""`terret init`, `add-agent` and `add-subagent`: files to begin with."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import typer

from terret_context import TerretError
from terret_loader import load_plugin

from ._boot import Boot
from ._errors import DONE, CommandError
from ._folders import open_folders

Written = TypeVar("Written")


def new_project(folder: Path) -> int:
    """Writes a project that runs as it is; if one of its files is there, writes nothing."""
    folders: Any = load_plugin("agent-folders").body
    for file in _written(lambda: folders.scaffold_project(folder)):
        typer.echo(file)
    there = f"  cd {folder}\n" if folder.resolve() != Path.cwd() else ""
    typer.echo(f"""\
Next:
{there}\
  terret model install              fetches the small model it begins with, once (98 MB)
  terret run "What is 17 + 25?"     one answer; `terret chat` for a conversation
  terret dev                        the same over HTTP, following what you change
A strong model: see harness.yml. Another agent: terret add-agent NAME""")
    return DONE


async def add_agent(
    boot: Boot,
    name: str,
    *,
    system_prompt: str | None,
    provider: str | None,
    model: str | None,
    python: bool,
) -> int:
    """Writes the file of a new agent, and says what holds for it."""
    async with open_folders(boot) as folders:
        scaffold = partial(
            folders.scaffold_agent,
            name,
            system_prompt=system_prompt,
            provider=provider,
            model=model,
            python=python,
        )
        _show_defaults(_written(scaffold))
        typer.echo(f'Try it: terret run {name} "Hello"')
    return DONE


async def add_subagent(boot: Boot, parent: str, name: str) -> int:
    """Writes the file of a new subagent, and says what holds for it."""
    async with open_folders(boot) as folders:
        _show_defaults(_written(lambda: folders.scaffold_subagent(parent, name)))
        typer.echo(f"Say in toolDescription when {parent.rpartition('/')[2]} is to call {name}.")
    return DONE


def _written(scaffold: Callable[[], Written]) -> Written:
    try:
        return scaffold()
    except (TerretError, OSError) as error:
        raise CommandError(f"{error}; nothing was written") from error


def _show_defaults(file: Path) -> None:
    path = Path(os.path.relpath(file))
    typer.echo(f"""\
{path}
  tools        none yet: functions with @tool in {path.parent / "tools"}/*.py
  permissions  every call is denied: rules belong into {path.parent / "permissions.yml"}
  skills       none yet: {path.parent / "skills"}/**/SKILL.md""")
