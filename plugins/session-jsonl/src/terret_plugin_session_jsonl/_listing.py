import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from terret_sessions import (
    InvalidEventError,
    LosslessJsonError,
    SessionCorruptionError,
    SessionEvent,
    SessionFormatUnsupportedError,
    SessionSnapshot,
    event_from_json,
    last_turn,
)

from ._files import LOG_NAME
from ._reading import read_header, revision


def snapshots(root: Path) -> Iterator[SessionSnapshot]:
    """What can be listed, by the first line of each file and its end.

    One that cannot be read does not hide the others; it is left out with a warning.
    """
    try:
        folders = list(os.scandir(root))
    except FileNotFoundError:
        return
    for folder in folders:
        path = Path(folder.path, LOG_NAME)
        try:
            snapshot = _snapshot(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, SessionCorruptionError, SessionFormatUnsupportedError) as error:
            log.warning("session left out of the list: %s", error)
        else:
            if snapshot is not None:
                yield snapshot


def _snapshot(path: Path) -> SessionSnapshot | None:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        first = file.readline()
        if len(first) == status.st_size:
            return None  # a crash kept the events from the disk
        start = max(len(first), status.st_size - _END)
        file.seek(start)
        rows = file.read().split(b"\n")
    newest_first = _readable(rows if start == len(first) else rows[1:])
    last = next(newest_first, None)
    if last is None:
        return SessionSnapshot(
            read_header(path, first), revision(status), status.st_mtime_ns // 1_000_000
        )
    turn = last_turn([last]) or last_turn(newest_first)
    return SessionSnapshot(read_header(path, first), revision(status), last.time, turn)


def _readable(rows: list[bytes]) -> Iterator[SessionEvent]:
    for row in reversed(rows):
        try:
            yield event_from_json(row)
        except (InvalidEventError, LosslessJsonError):
            continue


log = logging.getLogger(__name__)
_END: Final = 8192
