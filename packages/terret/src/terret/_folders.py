"""The agent folders of a project, reached without starting the rest of its harness."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

from terret_loader import Entry

from ._boot import Boot
from ._errors import CommandError
from ._services import AGENT_FOLDERS, Folders


@asynccontextmanager
async def open_folders(boot: Boot) -> AsyncIterator[Folders]:
    """Starts the agent folders with what they need, and nothing else; gives their service.

    Nothing is logged: who wants to know what is wrong with agents asks the service. Raises
    `CommandError` where they are not mounted, and `HarnessConfigError`.
    """
    entries = boot.check().entries
    needed = set(_providers(entries, AGENT_FOLDERS.name))
    if not needed:
        raise CommandError(f"{boot.file} mounts no agent folders; add `agent-folders: {{}}` to it")
    needed.add("logging")
    off = (e.path for e in entries if e.enabled and not e.group and e.path not in needed)
    sets = (*boot.sets, *(f"{path}.enabled=false" for path in off), "logging?.level=critical")
    async with replace(boot, sets=sets).open() as root:
        yield root[AGENT_FOLDERS]


def _providers(entries: Iterable[Entry], key: str) -> Iterator[str]:
    """Names the entry that provides a service, and those that it needs."""
    for entry in entries:
        if entry.plugin is not None and key in entry.plugin.provides:
            yield entry.path
            for needed in entry.plugin.inject:
                yield from _providers(entries, needed)
