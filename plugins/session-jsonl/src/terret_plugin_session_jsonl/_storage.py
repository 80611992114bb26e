import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic_core import to_json

from terret_sessions import (
    SessionEvent,
    SessionHeader,
    SessionSnapshot,
    SessionStorage,
    StoredLog,
)
from terret_sessions.storage import BlockingCalls, Fsync, file_name, line_blocks

from ._files import LOG_NAME, LogFile
from ._listing import snapshots
from ._reading import read_log, revision

T = TypeVar("T")


class JsonlStorage(SessionStorage):
    """Sessions below the folder `root`: a directory each, with one file of a header and events.

    A session is locked for other writers from `acquire` to `release`. Reading takes no lock. The
    disk is told to keep what was written at each `sync`, after each write, or never. A cancelled
    caller waits for at most `grace` seconds for the disk.
    """

    def __init__(self, root: Path, *, fsync: Fsync = "flush", grace: float = 10.0) -> None:
        self._root = root
        self._threads = BlockingCalls(grace=grace)
        self._fsync = fsync
        self._files: dict[str, LogFile] = {}

    async def acquire(self, id: str) -> None:
        def take() -> None:  # filed by the thread: a lock is never lost with a cancelled caller
            self._files[id] = LogFile(self._folder(id), id)

        if id not in self._files:
            await self._threads.run(take)

    async def release(self, id: str) -> None:
        file = self._files.pop(id, None)
        if file is not None:
            await self._threads.run(file.close)

    async def load_stored(self, id: str) -> StoredLog | None:
        file = self._files.get(id)
        read = partial(read_log, self._path(id), id) if file is None else file.load
        log = await self._reading(read)
        if log is None:
            return None
        marker = log.size if log.torn else None
        return StoredLog(log.header, log.events, log.revision, marker)

    async def read_stored_revision(self, id: str) -> str | None:
        status = await self._reading(self._path(id).stat)
        return None if status is None else revision(status)

    async def load_stored_from(self, id: str, seq: int) -> Sequence[SessionEvent] | None:
        log = await self._reading(partial(read_log, self._path(id), id, start=seq))
        return None if log is None else log.events

    async def append_batch(
        self,
        header: SessionHeader,
        events: Sequence[SessionEvent],
        *,
        materialized: bool,
        durable: bool = False,
    ) -> None:
        file = self._files[header.id]
        fresh = events[max(0, file.next_seq - events[0].seq) :] if events else ()
        if not fresh:
            return
        head = b"" if file.begun else to_json(header.to_wire()) + b"\n"
        lines = b"".join((head, *(block.lines for block in await line_blocks(fresh))))
        seqs = range(fresh[0].seq, fresh[-1].seq + 1)
        now = self._fsync == "always" or (durable and self._fsync == "flush")
        await self._threads.run(partial(file.append, lines, seqs, durable=now))

    async def commit_repair(
        self, header: SessionHeader, torn_marker: object | None, closers: Sequence[SessionEvent]
    ) -> None:
        file = self._files[header.id]
        if torn_marker is not None:
            await self._threads.run(file.cut)
            log.warning("%s: an incomplete record was cut off its end", file.path)
        await self.append_batch(header, closers, materialized=True)
        await self.sync(header.id)

    async def sync(self, id: str) -> None:
        if self._fsync != "never":
            await self._threads.run(self._files[id].sync)

    async def delete(self, id: str) -> None:
        await self._threads.run(self._files[id].delete)

    async def list(self) -> tuple[SessionSnapshot, ...]:
        found = await self._threads.run(lambda: tuple(snapshots(self._root)))
        return tuple(sorted(found, key=lambda each: (each.header.created_at, each.header.id)))

    async def close(self) -> None:
        for id in tuple(self._files):
            await self.release(id)

    def locate(self, header: SessionHeader) -> str:
        return str(self._path(header.id))

    @property
    def supports_raw(self) -> bool:
        return True

    async def read_raw(self, id: str) -> bytes | None:
        return await self._reading(self._path(id).read_bytes)

    async def _reading(self, read: Callable[[], T | None]) -> T | None:
        try:
            return await self._threads.run(read)
        except FileNotFoundError:
            return None

    def _folder(self, id: str) -> Path:
        return self._root / file_name(id)

    def _path(self, id: str) -> Path:
        return self._folder(id) / LOG_NAME


log = logging.getLogger(__name__)
