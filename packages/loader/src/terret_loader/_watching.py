"""Calls a function when one of a changing set of files changes."""

from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from watchfiles import Change, awatch

_LOOK_AGAIN_MS: Final = 1_000


async def watch(
    files: Callable[[], Collection[Path]],
    changed: Callable[[], Awaitable[object]],
    *,
    stop: anyio.Event,
    collect_ms: int,
) -> None:
    """Watches until `stop` is set; changes at most `collect_ms` apart make one call.

    Folders are watched, not files: so a file may be missing, or be replaced by a rename. `files` is
    asked again after each call. A set `stop` ends the thread that waits; cancelling alone would
    wait for its next look.
    """
    while not stop.is_set():
        folders, wanted = _watched(files())
        changes = awatch(
            *folders,
            watch_filter=partial(_is_wanted, wanted),
            step=collect_ms,
            rust_timeout=_LOOK_AGAIN_MS,
            yield_on_timeout=True,
            stop_event=stop,
            recursive=False,
        )
        fresh = True  # what changed before the watch began is seen by one call too many
        async with aclosing(changes):
            async for found in changes:
                if found or fresh:
                    await changed()
                fresh = False
                if _watched(files()) != (folders, wanted):
                    break


def _is_wanted(wanted: Collection[Path], change: Change, path: str) -> bool:
    return Path(path) in wanted


def _watched(files: Collection[Path]) -> tuple[set[Path], set[Path]]:
    """Gives the folders to watch, and the paths in them that matter: folders still to come too."""
    folders, wanted = set(), set(files)
    for file in files:
        folder = file.parent
        while not folder.is_dir():
            wanted.add(folder)
            folder = folder.parent
        folders.add(folder)
    return folders, wanted
