"""Which harness a command is for, and its start."""

import gc
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from terret_context import Container
from terret_loader import Plan, check_document, open_harness, read_env_file

from ._errors import CommandError

HARNESS: Final = "harness.yml"
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
        """The configuration file. Raises `CommandError` if there is none."""
        if self.config is not None:
            return _existing(self.config)
        if self.root is not None:
            return _existing(self.root / HARNESS)
        if "TERRET_ROOT" in os.environ:
            return _existing(Path(os.environ["TERRET_ROOT"]) / HARNESS, " (TERRET_ROOT)")
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / HARNESS).is_file():
                return folder / HARNESS
        raise CommandError(
            f"no {HARNESS} in {here} or above it; write one, or name a file with -c FILE"
        )

    def of(self, file: Path | None) -> "Boot":
        """Returns the same for another file, if there is one."""
        return self if file is None else replace(self, config=file)

    @asynccontextmanager
    async def open(
        self, *, start_agents: bool = True, watch: bool = False
    ) -> AsyncIterator[Container]:
        """Starts the harness; the context manager gives its root.

        With `start_agents=False` the agents of the file are known but not started.
        """
        async with open_harness(
            self.file,
            sets=self.sets if start_agents else (*self.sets, _NO_AUTOSTART),
            defaults=self._logging,
            safe=self.safe,
            env=self.environment,
            watch=watch,
            patience=PATIENCE,
        ) as root:
            gc.enable()
            yield root

    def check(self) -> Plan:
        """Reads and checks everything without mounting anything."""
        return check_document(self.file, sets=self.sets, env=self.environment)

    @property
    def _logging(self) -> tuple[str, ...]:
        """Log lines for the person at the terminal, unless the file says otherwise."""
        level = ("logging.level=error",) if self.quiet else ()
        tracebacks = ("logging.tracebacks=true",) if self.verbose else ()
        return ("logging.format=console", *level, *tracebacks)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the process with `.env` below it; plugins look for keys there too."""
        for name, value in read_env_file(self.env_file or self.file.parent / ".env").items():
            os.environ.setdefault(name, value)
        return os.environ


def _existing(path: Path, source: str = "") -> Path:
    if not path.is_file():
        raise CommandError(f"there is no file {path}{source}")
    return path
