"""Which harness a command is for, and its start."""

import gc
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from terret_context import Container
from terret_loader import Plan, check_document, open_harness, read_env_file

from ._errors import CommandError
from ._variables import set_by_variables

HARNESS: Final = "harness.yml"
AGENTS: Final = "agents"
PRESET: Final = "extends: [service]"
_NO_AUTOSTART: Final = "agents?.autostart=false"
PATIENCE: Final = 60.0
"""Seconds that a plugin may take to come up."""


@dataclass(frozen=True, kw_only=True)
class Boot:
    """What the common flags say: which file, which values on top, how forgiving."""

    config: Path | None = None
    root: Path | None = None
    env_file: Path | None = None
    sets: tuple[str, ...] = ()
    safe: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def file(self) -> Path:
        """The configuration file, which may be missing where there are agents.

        Raises `CommandError` if there is no project.
        """
        if self.config is not None:
            if not self.config.is_file():
                raise CommandError(f"there is no file {self.config}")
            return self.config
        if self.root is not None:
            return _in_project(self.root)
        if root := os.environ.get("TERRET_ROOT"):
            return _in_project(Path(root), " (TERRET_ROOT)")
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / HARNESS).is_file():
                return folder / HARNESS
        if (here / AGENTS).is_dir():
            return here / HARNESS
        raise CommandError(
            f"no {HARNESS} in {here} or above it; `terret init` makes a new project, "
            "--root DIR or -c FILE names another one"
        )

    @property
    def folder(self) -> Path:
        """The root of the project, where its relative paths begin."""
        return self.file.absolute().parent

    @property
    def flags(self) -> list[str]:
        """The words of a command line that say the same."""
        paths = {"--config": self.config, "--root": self.root, "--env-file": self.env_file}
        switches = {"--safe": self.safe, "--quiet": self.quiet, "--verbose": self.verbose}
        return [
            *(text for flag, path in paths.items() if path for text in (flag, str(path))),
            *(text for value in self.sets for text in ("--set", value)),
            *(flag for flag, is_on in switches.items() if is_on),
        ]

    @property
    def variables(self) -> Path:
        """The file with variables, which may be missing."""
        return self.env_file or self.folder / ".env"

    def of(self, file: Path | None) -> "Boot":
        """Returns the same for another file, if there is one."""
        return self if file is None else replace(self, config=file)

    @asynccontextmanager
    async def open(
        self,
        *,
        start_agents: bool = True,
        watch: bool = False,
        defaults: Sequence[str] = ("logging.format=console",),
    ) -> AsyncIterator[Container]:
        """Starts the harness; the context manager gives its root.

        With `start_agents=False` the agents of the file are known but not started. `defaults` are
        settings below the file; log lines are by default for the person at the terminal.
        """
        env = self.environment
        async with open_harness(
            self.file,
            sets=self._sets(env) if start_agents else (*self._sets(env), _NO_AUTOSTART),
            defaults=(*defaults, *self._logging),
            safe=self.safe,
            env=env,
            watch=watch,
            patience=PATIENCE,
            if_missing=self._if_missing,
        ) as root:
            gc.enable()
            yield root

    def check(self) -> Plan:
        """Reads and checks everything without mounting anything."""
        env = self.environment
        return check_document(self.file, sets=self._sets(env), env=env, if_missing=self._if_missing)

    def _sets(self, env: Mapping[str, str]) -> tuple[str, ...]:
        return (*set_by_variables(env, self.folder), *self.sets)

    @property
    def _if_missing(self) -> str | None:
        """The document of a project that has agents and no file: the preset."""
        return None if self.file.is_file() else PRESET

    @property
    def _logging(self) -> tuple[str, ...]:
        level = ("logging.level=error",) if self.quiet else ()
        tracebacks = ("logging.tracebacks=true",) if self.verbose else ()
        return (*level, *tracebacks)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the process with `.env` below it; plugins look for keys there too."""
        for name, value in read_env_file(self.variables).items():
            os.environ.setdefault(name, value)
        return os.environ


def _in_project(folder: Path, source: str = "") -> Path:
    if not (folder / HARNESS).is_file() and not (folder / AGENTS).is_dir():
        text = f"there is no {HARNESS} in {folder}{source}; `terret init {folder}` makes a project"
        raise CommandError(text)
    return folder / HARNESS
