import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from ._errors import SessionLockedError

if sys.platform == "win32":
    import msvcrt

    def _take(fd: int) -> None:
        os.lseek(fd, 1 << 30, os.SEEK_SET)  # behind the text, which others must be able to read
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriteLock:
    """The right to write a session. The operating system takes it back when the process ends.

    The text of the file names the holder, for the message to others.
    """

    def __init__(self, path: Path, session_id: str) -> None:
        """Take the lock; raises SessionLockedError at once if somebody holds it."""
        self._path = path
        self._fd = _lock(path, session_id)
        holder = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        try:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, holder)
        except OSError:  # the disk is full
            os.close(self._fd)
            raise

    def release(self, *, remove: bool = False) -> None:
        """Give the lock back; with `remove` the file goes too."""
        if remove:
            with suppress(OSError):  # a system that does not remove open files
                self._path.unlink()
        os.close(self._fd)


def _lock(path: Path, session_id: str) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take(fd)
            if _is_at(fd, path):
                return fd
        except (BlockingIOError, PermissionError):
            os.close(fd)
            raise SessionLockedError(session_id, _holder(path)) from None
        os.close(fd)  # its holder removed the file while we opened it


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    """Name who has the lock. Whoever just took it may still be writing its name over an old one."""
    for _ in range(_LOOKS):
        try:
            holder = json.loads(path.read_bytes())
            if holder["host"] != socket.gethostname() or _is_alive(holder["pid"]):
                return f"process {holder['pid']} on {holder['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing is written yet
        time.sleep(_PAUSE)
    return _UNKNOWN


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # a signal would end it there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # of another user
    return True


_LOOKS: Final = 40
_PAUSE: Final = 0.005
_UNKNOWN: Final = "another process"
