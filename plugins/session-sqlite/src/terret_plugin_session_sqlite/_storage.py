import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from terret_sessions import (
    SessionEvent,
    SessionHeader,
    SessionSnapshot,
    SessionStorage,
    StoredLog,
)
from terret_sessions.storage import (
    BlockingCalls,
    Fsync,
    WriteLock,
    file_name,
    line_blocks,
    make_folder,
)

from ._changes import Append, Delete
from ._database import query
from ._queries import read_list, read_log, read_revision, read_suffix, read_text
from ._writer import Writer

T = TypeVar("T")


class SqliteStorage(SessionStorage):
    """Sessions in the database `path`, which is made when the first event is stored.

    A session is locked for other writers from `acquire` to `release`, by a file in a folder beside
    the database. Reading takes no lock and waits for no writer. The disk is told to keep what was
    written at each `sync`, after each write, or never. A cancelled caller waits for at most
    `grace` seconds for the disk.
    """

    def __init__(self, path: Path, *, fsync: Fsync = "flush", grace: float = 10.0) -> None:
        self._path = path
        self._writer = Writer(path, fsync=fsync, grace=grace)
        self._calls = BlockingCalls(grace=grace)
        self._locks: dict[str, WriteLock] = {}

    async def acquire(self, id: str) -> None:
        def take() -> None:  # filed by the thread: a lock is never lost with a cancelled caller
            folder = self._path.with_name(f"{self._path.name}-locks")
            make_folder(folder)
            self._locks[id] = WriteLock(folder / file_name(id), id)

        if id not in self._locks:
            await self._calls.run(take)

    async def release(self, id: str) -> None:
        lock = self._locks.pop(id, None)
        if lock is not None:
            await self._calls.run(partial(lock.release, remove=True))

    async def load_stored(self, id: str) -> StoredLog | None:
        return await self._query(partial(read_log, path=self._path, session_id=id))

    async def read_stored_revision(self, id: str) -> str | None:
        return await self._query(partial(read_revision, session_id=id))

    async def load_stored_from(self, id: str, seq: int) -> Sequence[SessionEvent] | None:
        return await self._query(partial(read_suffix, path=self._path, session_id=id, seq=seq))

    async def append_batch(
        self,
        header: SessionHeader,
        events: Sequence[SessionEvent],
        *,
        materialized: bool,
        durable: bool = False,
    ) -> None:
        if events:
            change = Append(header, events, await line_blocks(events))
            await self._writer.write(header.id, change, durable=durable)

    async def commit_repair(
        self, header: SessionHeader, torn_marker: object | None, closers: Sequence[SessionEvent]
    ) -> None:
        await self.append_batch(header, closers, materialized=True)
        await self.sync(header.id)

    async def sync(self, id: str) -> None:
        await self._writer.sync(id)

    async def delete(self, id: str) -> None:
        await self._writer.write(id, Delete(id))

    async def list(self) -> tuple[SessionSnapshot, ...]:
        return await self._query(partial(read_list, path=self._path)) or ()

    async def close(self) -> None:
        for id in tuple(self._locks):
            await self.release(id)
        await self._writer.close()

    def locate(self, header: SessionHeader) -> str:
        return str(self._path)

    @property
    def supports_raw(self) -> bool:
        return True

    async def read_raw(self, id: str) -> bytes | None:
        return await self._query(partial(read_text, session_id=id))

    async def _query(self, read: Callable[[sqlite3.Connection], T]) -> T | None:
        return await self._calls.run(partial(query, self._path, read))
