"""E-502: Both storages pass the same tests."""

from pathlib import Path

from terret_plugin_session_sqlite import SqliteStorage
from terret_sessions import SessionStorage
from terret_testing.storage_contract import SessionStorageContract


class TestSqliteStorage(SessionStorageContract):
    def open_storage(self, place: Path) -> SessionStorage:
        return SqliteStorage(place / "sessions.db")
