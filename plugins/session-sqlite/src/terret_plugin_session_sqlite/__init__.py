"""Session logs in one SQLite database: many sessions, suffix reads, group commit."""

from ._plugin import SessionSqliteConfig, session_sqlite
from ._storage import SqliteStorage

__all__ = ["SessionSqliteConfig", "SqliteStorage", "session_sqlite"]
