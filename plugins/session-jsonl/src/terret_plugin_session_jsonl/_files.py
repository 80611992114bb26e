import os
import shutil
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from terret_sessions import SessionChangedError
from terret_sessions.storage import WriteLock, keep_names, make_folder

from ._reading import LogText, read_log

LOG_NAME: Final = "session.jsonl"
LOCK_NAME: Final = "lock"


class LogFile:
    """The log of one session, open for writing: locked, append-only. Everything here blocks.

    A write is whole or taken back. Threads take turns, because one may have been left alone.
    """

    def __init__(self, folder: Path, session_id: str) -> None:
        """Take the lock of the session; raises SessionLockedError."""
        self.path = folder / LOG_NAME
        self.begun = False  # whether the header is written
        self.next_seq = 0
        self._id = session_id
        self._lock = _take(folder, session_id)
        self._turn = Lock()
        self._fd: int | None = None
        self._closed = False
        self._listed = False  # whether the disk knows the names of file and folder
        self._size = 0
        self._kept = (0, 0)  # size and next seq when the disk kept all of it
        self._lead = b""  # a line break that the last record lacks

    def load(self) -> LogText | None:
        """Read the log, and remember where it ends."""
        with self._turn:
            try:
                log = read_log(self.path, self._id)
            except FileNotFoundError:
                return None
            self.begun = log is not None
            self.next_seq = 0 if log is None else len(log.events)
            self._size = 0 if log is None else log.size
            self._kept = (self._size, self.next_seq)
            self._lead = b"" if log is None or log.terminated else b"\n"
            return log

    def append(self, rows: bytes, seqs: range, *, durable: bool) -> None:
        """Write rows behind the last whole record; what else stands there is cut off.

        Nothing happens if another thread wrote the same seqs meanwhile. Raises
        SessionChangedError.
        """
        with self._turn:
            if seqs.start != self.next_seq:
                if self.next_seq == seqs.stop:
                    return
                raise self._changed(f"seq {seqs.start} is not next, {self.next_seq} is")
            fd = self._open()
            os.ftruncate(fd, self._size)
            try:
                written = _write(fd, self._lead + rows)
            except OSError:
                os.ftruncate(fd, self._size)
                raise
            self._size += written
            self._lead = b""
            self.begun = True
            self.next_seq = seqs.stop
            if durable:
                self._keep(fd)

    def cut(self) -> None:
        """Cut off what stands behind the last whole record."""
        with self._turn:
            os.ftruncate(self._open(), self._size)

    def sync(self) -> None:
        """Tell the disk to keep what was written; raises SessionChangedError."""
        with self._turn:
            if self.begun:
                self._keep(self._open())

    def delete(self) -> None:
        """Remove the log, then whatever else is in the folder, but for the lock."""
        with self._turn:
            self._shut()
            self.path.unlink()
            for path in self.path.parent.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.name != LOCK_NAME:
                    path.unlink()
            self.begun, self.next_seq, self._size = False, 0, 0

    def close(self) -> None:
        """Give the session back. A folder in which nothing was written goes too."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            self._shut()
            empty = not self.path.exists()
            self._lock.release(remove=empty)
            if empty:
                with suppress(OSError):  # another process has just come in
                    self.path.parent.rmdir()

    def _open(self) -> int:
        """The file, which must still be the one that was written, with all that was written."""
        if self._closed:
            raise OSError(f"{self.path} was given back")
        if self._fd is None:
            self._listed = self.path.exists()
            create = 0 if self.begun else os.O_CREAT
            try:
                self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | create, 0o600)
            except FileNotFoundError:
                raise self._changed(f"{self.path} was removed") from None
        status = os.fstat(self._fd)
        try:
            there = os.path.samestat(status, self.path.stat())
        except FileNotFoundError:
            there = False
        if not there:
            raise self._changed(f"{self.path} was removed")
        if status.st_size < self._size:
            raise self._changed(f"{self.path} was shortened")
        return self._fd

    def _shut(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _keep(self, fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError:  # what was not kept may be lost, whatever a second attempt says
            self._size, self.next_seq = self._kept
            os.ftruncate(fd, self._size)
            raise
        self._kept = (self._size, self.next_seq)
        if not self._listed:
            for folder in (self.path.parent, self.path.parent.parent):
                keep_names(folder)
            self._listed = True

    def _changed(self, reason: str) -> SessionChangedError:
        return SessionChangedError(self._id, reason)


def _take(folder: Path, session_id: str, attempts: int = 100) -> WriteLock:
    """Lock the folder of a session; whoever has just given it back may be removing it."""
    make_folder(folder.parent)
    while True:
        attempts -= 1
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            return WriteLock(folder / LOCK_NAME, session_id)
        except (FileExistsError, FileNotFoundError):
            if not attempts:
                raise


def _write(fd: int, data: bytes) -> int:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    return len(data)
