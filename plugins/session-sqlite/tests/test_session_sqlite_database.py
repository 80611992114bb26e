"""The storage on its database: what it refuses, locks, groups, and how it is told of trouble."""

import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from terret_llm import create_user_message
from terret_plugin_session_sqlite import SqliteStorage
from terret_sessions import (
    Session,
    SessionChangedError,
    SessionCorruptionError,
    SessionFormatUnsupportedError,
    SessionLockedError,
    event_to_json,
)


def conversation(count: int = 3, id: str = "s") -> Session:
    session = Session(id)
    for number in range(count):
        message = create_user_message(f"message {number}")
        session.append("user/message", message, surface_op="append")
    return session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "sessions.db"


@asynccontextmanager
async def writer(path: Path, *ids: str, **options: Any) -> AsyncIterator[SqliteStorage]:
    storage = SqliteStorage(path, **options)
    try:
        for id in ids or ("s",):
            await storage.acquire(id)
        yield storage
    finally:
        await storage.close()


async def write(storage: SqliteStorage, session: Session, start: int = 0) -> None:
    events = session.events[start:]
    await storage.append_batch(session.header, events, materialized=start > 0)


async def put(path: Path, session: Session) -> None:
    """Stores the first event by itself, and all others together."""
    async with writer(path, session.id) as storage:
        events = session.events
        await storage.append_batch(session.header, events[:1], materialized=False)
        await write(storage, session, 1)


def execute(path: Path, statement: str, *values: object) -> list[Any]:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(statement, values).fetchall()


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def content(path: Path) -> bytes:
    return path.read_bytes()


def syncs(path: Path) -> int:
    ((count,),) = execute(path, "SELECT count FROM syncs")
    return int(count)


async def test_the_tables_can_be_read_by_anybody(path: Path) -> None:
    """M-117: A view has one row an event, for JSON functions; the raw text is JSON lines."""
    session = conversation()
    await put(path, session)
    await put(path, conversation(id="t"))
    raw = await SqliteStorage(path).read_raw("s")
    rows = execute(
        path,
        "SELECT seq, event ->> '$.seq', event ->> '$.data.content[0].text' FROM events"
        " WHERE id = 's' AND seq > 0 ORDER BY seq",
    )

    assert rows == [(1, 1, "message 1"), (2, 2, "message 2")]
    assert raw is not None
    assert raw.splitlines()[1:] == [event_to_json(event) for event in session.events]


async def test_events_that_are_written_together_share_a_row(path: Path) -> None:
    """M-119: A few hundred at most, so that a large seed does not become one large value."""
    session = conversation(700)
    async with writer(path) as storage:
        await write(storage, session)
        blocks = execute(path, "SELECT first FROM blocks ORDER BY first")
        suffix = await storage.load_stored_from("s", 699)

    assert blocks == [(0,), (250,), (500,)]
    assert suffix == session.events[699:]


async def test_nothing_is_made_by_looking(path: Path) -> None:
    """M-117: A database appears with the first event; locks go when they are given back."""
    async with writer(path) as storage:
        assert await storage.list() == ()
        assert await storage.load_stored("s") is None
        assert files(path.parent) == ["sessions.db-locks"]
        await write(storage, conversation())
        assert files(path.with_name("sessions.db-locks")) == ["s"]
    assert files(path.with_name("sessions.db-locks")) == []


async def test_who_waits_together_is_synced_together(path: Path) -> None:
    """M-119: One transaction and one wait for the disk serve all who asked meanwhile."""
    sessions = [conversation(id=f"s{number}") for number in range(30)]
    ids = [session.id for session in sessions]

    async def keep(session: Session) -> None:
        await write(storage, session)
        await storage.sync(session.id)

    async with writer(path, *ids) as storage:
        async with anyio.create_task_group() as group:
            for session in sessions:
                group.start_soon(keep, session)
        assert len(await storage.list()) == 30
    assert 1 <= syncs(path) <= 10


@pytest.mark.parametrize(("fsync", "count"), [("flush", 2), ("always", 0), ("never", 0)])
async def test_a_sync_is_a_commit_where_the_setting_asks_for_it(
    path: Path, fsync: Any, count: int
) -> None:
    """M-119: None if nothing was written since the last one."""
    session = conversation(2)
    async with writer(path, fsync=fsync) as storage:
        for start in (0, 1):
            events = session.events[start : start + 1]
            await storage.append_batch(session.header, events, materialized=start > 0)
            await storage.sync("s")
            await storage.sync("s")

    assert syncs(path) == count


async def test_one_failure_in_a_group_is_that_of_its_caller(path: Path) -> None:
    """M-119: The others of the transaction are committed."""
    good, bad = conversation(id="good"), conversation(id="bad")
    failures: list[str] = []

    async def overreach() -> None:
        try:
            await write(storage, bad, 1)
        except SessionChangedError as error:
            failures.append(str(error))

    async with writer(path, "good", "bad") as storage:
        async with anyio.create_task_group() as group:
            group.start_soon(write, storage, conversation(id="first"))
            group.start_soon(overreach)
            group.start_soon(write, storage, good)
        stored = {snapshot.header.id for snapshot in await storage.list()}

    assert failures == ["session 'bad': seq 1 is not next, 0 is"]
    assert stored == {"first", "good"}


async def test_a_database_that_somebody_removes_is_made_again(path: Path) -> None:
    """M-118: The writer notices before it writes, and says so."""
    session = conversation()
    async with writer(path) as storage:
        await write(storage, session)
        for name in (path, *path.parent.glob("sessions.db-[ws]*")):
            name.unlink()
        with pytest.raises(SessionChangedError, match=r"sessions\.db was removed"):
            await write(storage, session, 2)
        assert await storage.load_stored("s") is None
        await write(storage, session)
        stored = await storage.load_stored("s")

    assert stored is not None
    assert stored.events == session.events


Damage = Callable[[Path], object]


def _spoil(path: Path) -> None:
    spoiled = """replace(CAST(lines AS TEXT), '"seq":2', '"seq":')"""
    execute(path, f"UPDATE blocks SET lines = CAST({spoiled} AS BLOB)")


def _lose(path: Path) -> None:
    execute(path, "DELETE FROM blocks WHERE first = 0")


def _cut(path: Path) -> None:
    execute(path, "DELETE FROM blocks WHERE first = 1")


def _overwrite(path: Path) -> None:
    path.write_bytes(b"not a database".ljust(8192))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (_spoil, "session 's', seq 2"),
        (_lose, "session 's', seq 0"),
        (_cut, "session 's', seq 1"),
        (_overwrite, "database"),
        (_truncate, "database"),
    ],
)
async def test_damage_is_refused_and_nothing_changed(
    path: Path, damage: Damage, place: str
) -> None:
    """M-117, M-120, B-172, B-179: Naming the database and where in it."""
    await put(path, conversation())
    damage(path)
    before = content(path)
    with pytest.raises(SessionCorruptionError) as caught:
        await SqliteStorage(path).load_stored("s")
    with pytest.raises(SessionCorruptionError):
        await SqliteStorage(path).load_stored_from("s", 0)

    assert (caught.value.artifact, caught.value.place) == (str(path), place)
    assert content(path) == before


async def test_a_row_of_another_form_is_named_by_its_seq(path: Path) -> None:
    """M-117: Session, seq and type lead to it, whatever block it is in."""
    await put(path, conversation(9))
    strange = """replace(CAST(lines AS TEXT), '"seq":4', '"seq":4,"new":1')"""
    execute(path, f"UPDATE blocks SET lines = CAST({strange} AS BLOB)")
    with pytest.raises(SessionFormatUnsupportedError) as caught:
        await SqliteStorage(path).load_stored("s")

    assert caught.value.place == "session 's', seq 4"
    assert "unknown key 'new'" in str(caught.value)


async def test_damage_of_one_session_is_its_own(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """M-117: The others are listed and read."""
    await put(path, conversation())
    await put(path, conversation(id="t"))
    execute(path, "UPDATE sessions SET header = '{\"version\":9}' WHERE id = 's'")
    storage = SqliteStorage(path)

    assert [snapshot.header.id for snapshot in await storage.list()] == ["t"]
    assert "session 's'" in caplog.text
    assert await storage.load_stored("t") is not None
    with pytest.raises(SessionFormatUnsupportedError, match="session 's'"):
        await storage.load_stored("s")


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["PRAGMA user_version = 1"], r"of format 1, and this plugin reads 2; .* that wrote it"),
        (["PRAGMA user_version = 3"], "of format 3, and this plugin reads 2"),
        (["PRAGMA application_id = 7"], "not one of Terret"),
    ],
)
async def test_another_database_is_left_alone(
    path: Path, statements: list[str], reason: str
) -> None:
    """M-117, B-179: Of another version, or of another program: neither read nor written."""
    await put(path, conversation())
    for statement in statements:
        execute(path, statement)
    before = content(path)
    storage = SqliteStorage(path)
    with pytest.raises(SessionFormatUnsupportedError, match=reason):
        await storage.load_stored("s")
    with pytest.raises(SessionFormatUnsupportedError, match=reason):
        await write(storage, conversation(id="t"))
    await storage.close()

    assert content(path) == before


HOLD = """
import anyio, sys
from pathlib import Path
from terret_plugin_session_sqlite import SqliteStorage

async def hold():
    await SqliteStorage(Path(sys.argv[1])).acquire("s")
    print("held", flush=True)
    await anyio.sleep_forever()

anyio.run(hold)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
async def test_the_lock_of_a_dead_process_is_free(path: Path) -> None:
    """B-177: A live holder is named, a dead one is none."""
    command = [sys.executable, "-c", HOLD, str(path)]
    async with await anyio.open_process(command, stderr=None) as holder:
        assert holder.stdout is not None
        await BufferedByteReceiveStream(holder.stdout).receive_until(b"held", 100)
        with pytest.raises(SessionLockedError, match=f"process {holder.pid} on "):
            await SqliteStorage(path).acquire("s")
        holder.kill()
    async with writer(path) as storage:
        await write(storage, conversation())


async def test_a_transaction_of_another_process_is_waited_for(path: Path) -> None:
    """M-118: Writers of other sessions follow each other."""
    await put(path, conversation(id="t"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with writer(path) as storage, anyio.create_task_group() as group:
            group.start_soon(write, storage, conversation())
            await anyio.wait_all_tasks_blocked()
            assert len(await storage.list()) == 1
            other.execute("COMMIT")

    assert len(await SqliteStorage(path).list()) == 2


BEGIN = """
import anyio, sys, time
from pathlib import Path
from terret_llm import create_user_message
from terret_plugin_session_sqlite import SqliteStorage
from terret_sessions import Session

async def begin(path):
    session = Session()
    session.append("user/message", create_user_message("hi"), surface_op="append")
    storage = SqliteStorage(path)
    await storage.acquire(session.id)
    await storage.append_batch(session.header, session.events, materialized=False, durable=True)
    await storage.close()

print("ready", flush=True)
for line in sys.stdin:
    at, path = line.split()
    while time.time() < float(at):  # all at the same moment, as near as that can be
        pass
    anyio.run(begin, Path(path))
    print("done", flush=True)
"""


def tell(makers: Sequence[Popen[str]], line: str) -> None:
    """Wait until all are ready, or done with the line before, and give them the next."""
    for maker in makers:
        assert maker.stdout is not None
        assert maker.stdout.readline()
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write(line)


def test_a_database_may_be_made_by_several_at_once(tmp_path: Path) -> None:
    """M-118: Nobody takes a half-made one for a foreign one, or gives up too early."""
    command = [sys.executable, "-c", BEGIN]
    with ExitStack() as stack:
        makers = [
            stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True, bufsize=1))
            for _ in range(4)
        ]
        for number in range(5):
            tell(makers, f"{time.time() + 0.03} {tmp_path / str(number)}\n")
        tell(makers, "")
        counts = [len(anyio.run(SqliteStorage(tmp_path / str(n)).list)) for n in range(5)]

    assert counts == [4] * 5


async def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """M-119: The failure is that of the flush, and says which file."""
    (tmp_path / "sessions.db").mkdir()
    storage = SqliteStorage(tmp_path / "sessions.db")
    with pytest.raises(OSError, match=r"sessions\.db"):
        await write(storage, conversation())
    await storage.close()


@pytest.mark.skipif(sys.platform == "win32", reason="has no such modes")
async def test_nobody_else_reads_what_was_said(path: Path) -> None:
    """M-117: Neither the database nor what is not yet in it."""
    async with writer(path) as storage:
        await write(storage, conversation())
        modes = {
            each.name: each.stat().st_mode & 0o777 for each in path.parent.glob("sessions.db*")
        }

    assert modes == {
        "sessions.db": 0o600,
        "sessions.db-wal": 0o600,
        "sessions.db-shm": 0o600,
        "sessions.db-locks": 0o700,
    }
