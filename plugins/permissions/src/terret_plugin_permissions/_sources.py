"""Where the rules of an agent come from: written beside it, or a file that is followed."""

import os
from pathlib import Path
from typing import Protocol

import anyio

from terret_loader import HarnessConfigError, Loader, read_yaml

from ._rules import Decision, RuleSet

_DENY_ALL = RuleSet(default="deny")


class RuleSource(Protocol):
    """Gives the rules of an agent."""

    @property
    def rules(self) -> RuleSet:
        """The rules in force."""
        ...

    @property
    def error(self) -> HarnessConfigError | None:
        """Why the rules in force are older than their file."""
        ...

    async def refresh(self) -> None:
        """Reads the rules again if they changed."""
        ...


class InlineRules:
    """Rules that do not change."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self.error: HarnessConfigError | None = None

    async def refresh(self) -> None:
        return None


class RuleFile:
    """A `permissions.yml`; made by `await RuleFile.read(...)`.

    What is valid stays in force when the file turns invalid. Without a file everything is denied.
    """

    def __init__(self, loader: Loader, path: Path) -> None:
        self.path = path
        self.rules = _DENY_ALL
        self.error: HarnessConfigError | None = None
        self._loader = loader
        self._seen: object = None

    @classmethod
    async def read(cls, loader: Loader, path: Path, *, required: bool) -> "RuleFile":
        """Reads a file for the first time; raises `HarnessConfigError` for an invalid one.

        So does a file that is not there, if it is `required`.
        """
        source = cls(loader, path)
        seen = await _stamp(path)
        if seen is not None or required:
            source.rules = await anyio.to_thread.run_sync(source._parse)
        source._seen = seen
        return source

    async def refresh(self) -> None:
        """Reads the file again if it changed; a fault is kept in `error`."""
        seen = await _stamp(self.path)
        if seen == self._seen:
            return
        self._seen = seen
        if seen is None:
            self.rules, self.error = _DENY_ALL, None
            return
        try:
            self.rules = await anyio.to_thread.run_sync(self._parse)
        except HarnessConfigError as error:
            self.error = error
        else:
            self.error = None

    def _parse(self) -> RuleSet:
        return self._loader.evaluate(read_yaml(self.path), RuleSet)


async def _stamp(path: Path) -> object:
    try:
        found = await anyio.to_thread.run_sync(os.stat, path)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def default_of(rules: RuleSet) -> Decision:
    """What is decided where no rule of a set matches."""
    return rules.default or "ask"
