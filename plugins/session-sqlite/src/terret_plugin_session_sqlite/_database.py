import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from terret_sessions import SessionCorruptionError, SessionFormatUnsupportedError
from terret_sessions.storage import make_folder

T = TypeVar("T")

BUSY_SECONDS: Final = 30.0
"""How long a transaction of another process is waited for."""


def query(path: Path, read: Callable[[sqlite3.Connection], T]) -> T | None:
    """Read from one state of a database; None if there is none. Waits for no writer.

    A connection lives for one query, so it never reads a file that was exchanged meanwhile.
    """
    if not path.exists():
        return None
    with named_errors(path), closing(_connect(path, "rw")) as db:  # the mode that reads a WAL
        db.execute("PRAGMA query_only = 1")
        db.execute("BEGIN")
        return read(db) if _has_tables(path, db) else None


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open a database, and make it if there is none."""
    make_folder(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # nobody else reads what was said
    db = _connect(path, "rw")
    try:
        db.execute("BEGIN")
        _has_tables(path, db)
        db.execute("COMMIT")
        db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        _use_wal(db)
        db.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to write-ahead mode. SQLite itself waits for nobody who is doing the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(0.005)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Say which file a failure of SQLite is about, and whether it is damaged."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_DAMAGE:
            raise OSError(f"{path}: {error}") from error
        raise SessionCorruptionError(str(path), "database", str(error)) from error


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    db.text_factory = bytes
    return db


def _has_tables(path: Path, db: sqlite3.Connection) -> bool:
    """Whether it is a database of ours or an empty file; raises for all others."""
    ((application,),) = db.execute("PRAGMA application_id")
    ((version,),) = db.execute("PRAGMA user_version")
    ((tables,),) = db.execute("SELECT count(*) FROM sqlite_master")
    if tables and application != _APPLICATION:
        raise SessionFormatUnsupportedError(str(path), "database", "it is not one of Terret")
    if tables and version != _VERSION:
        reason = f"it is of format {version}, and this plugin reads {_VERSION}; {_WAY_OUT}"
        raise SessionFormatUnsupportedError(str(path), "database", reason)
    return bool(tables)


_APPLICATION: Final = 0x54727274  # "Trrt"
_VERSION: Final = 2
_WAY_OUT: Final = "move it away, or export its sessions with the version of Terret that wrote it"
_PAGE_BYTES: Final = 8192  # a few events fit into one
_NO_DAMAGE: Final = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_TOOBIG,
)
_SCHEMA: Final = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
    """
    CREATE TABLE IF NOT EXISTS sessions (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        next_seq INTEGER NOT NULL,
        last_turn TEXT,
        header TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS blocks (
        session INTEGER NOT NULL REFERENCES sessions (key),
        first INTEGER NOT NULL,
        lines BLOB NOT NULL,
        PRIMARY KEY (session, first)
    )
    """,
    """
    CREATE VIEW IF NOT EXISTS events AS
    SELECT sessions.id, blocks.first + line.key AS seq, line.value AS event
    FROM sessions JOIN blocks ON blocks.session = sessions.key,
        json_each('[' || replace(rtrim(CAST(lines AS TEXT), x'0a'), x'0a', ',') || ']') AS line
    """,
    """
    CREATE TABLE IF NOT EXISTS syncs (
        count INTEGER NOT NULL
    )
    """,
    "INSERT INTO syncs SELECT 0 WHERE NOT EXISTS (SELECT * FROM syncs)",
)
