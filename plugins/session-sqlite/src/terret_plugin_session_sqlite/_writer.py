import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock

import anyio
from anyio.lowlevel import checkpoint

from terret_sessions import SessionChangedError
from terret_sessions.storage import BlockingCalls, Fsync

from ._database import named_errors, open_for_writing

Change = Callable[[sqlite3.Connection], object]


class Writer:
    """The one thread that writes to a database.

    What several callers ask for while it is busy becomes one transaction, and one wait for the
    disk. A change that fails takes only itself back.
    """

    def __init__(self, path: Path, *, fsync: Fsync, grace: float) -> None:
        self._path = path
        self._fsync = fsync
        self._calls = BlockingCalls(grace=grace, limit=1)
        self._waiting: list[_Job] = []
        self._turn = anyio.Lock(fast_acquire=True)
        self._thread = Lock()  # a thread that was left alone may still be at work
        self._db: sqlite3.Connection | None = None
        self._identity: os.stat_result | None = None
        self._synced = True

    async def write(self, session_id: str, change: Change, *, durable: bool = False) -> None:
        """Make a change; returns when it is committed, raises what it raises.

        With `durable` it returns when the disk keeps it, where the setting is to sync at flushes.
        Raises SessionChangedError if somebody removed the database.
        """
        sync = durable and self._fsync == "flush"
        await self._run(_Job(session_id, change, sync=sync))

    async def sync(self, session_id: str) -> None:
        """Wait until the disk keeps what was committed before."""
        if self._fsync == "flush" and not self._synced:
            await self._run(_Job(session_id, None, sync=True))

    async def close(self) -> None:
        await self._calls.run(self._close)

    async def _run(self, job: "_Job") -> None:
        self._waiting.append(job)
        async with self._turn:
            if not job.done:
                await checkpoint()  # let those who are about to ask join in
                jobs, self._waiting = self._waiting, []
                await self._calls.run(partial(self._commit, jobs))
        if job.error is not None:
            raise job.error

    def _commit(self, jobs: Sequence["_Job"]) -> None:
        with self._thread:
            try:
                self._transact(jobs)
            except Exception as error:
                for job in jobs:
                    job.error = job.error or error
            finally:
                for job in jobs:
                    job.done = True

    def _transact(self, jobs: Sequence["_Job"]) -> None:
        with named_errors(self._path):
            db = self._open(jobs)
            asked = any(job.sync for job in jobs)
            sync = asked or self._fsync == "always"
            db.execute(f"PRAGMA synchronous = {_LEVELS[self._fsync, sync]}")
            db.execute("BEGIN IMMEDIATE")
            before = db.total_changes
            try:
                for job in jobs:
                    _apply(db, job)
                if asked and db.total_changes == before:  # an empty commit is not synced
                    db.execute("UPDATE syncs SET count = count + 1")
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            self._synced = sync

    def _open(self, jobs: Sequence["_Job"]) -> sqlite3.Connection:
        if self._db is not None and not _is_at(self._identity, self._path):
            self._shut()
            for job in jobs:
                job.error = SessionChangedError(job.session_id, f"{self._path} was removed")
        if self._db is None:
            self._db = open_for_writing(self._path)
            self._identity = self._path.stat()
        return self._db

    def _close(self) -> None:
        with self._thread:
            self._shut()

    def _shut(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()


class _Job:
    """What somebody waits for: a change, a sync, or both."""

    __slots__ = ("change", "done", "error", "session_id", "sync")

    def __init__(self, session_id: str, change: Change | None, *, sync: bool) -> None:
        self.session_id = session_id
        self.change = change
        self.sync = sync
        self.done = False
        self.error: Exception | None = None


def _apply(db: sqlite3.Connection, job: _Job) -> None:
    if job.error is not None or job.change is None:
        return
    db.execute("SAVEPOINT job")
    try:
        job.change(db)
    except Exception as error:
        if not db.in_transaction:
            raise  # SQLite gave the whole transaction up
        job.error = error
        db.execute("ROLLBACK TO job")
    db.execute("RELEASE job")


def _is_at(identity: os.stat_result | None, path: Path) -> bool:
    try:
        return identity is not None and os.path.samestat(identity, path.stat())
    except FileNotFoundError:
        return False


_LEVELS = {
    ("flush", False): "NORMAL",
    ("flush", True): "FULL",
    ("always", True): "FULL",
    ("never", False): "OFF",
}
