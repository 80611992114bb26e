import os
from contextlib import suppress
from itertools import takewhile
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, so that the disk keeps their names."""
    missing = [*takewhile(lambda each: not each.exists(), (folder, *folder.parents))]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        with suppress(PermissionError):  # of a folder that may be written but not read
            keep_names(each.parent)


def keep_names(folder: Path) -> None:
    """Tell the disk to keep the names of what is in a folder."""
    if os.name == "posix":  # elsewhere a folder cannot be opened, and need not be
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
