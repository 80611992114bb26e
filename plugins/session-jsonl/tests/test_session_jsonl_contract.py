"""E-502: Both storages pass the same tests."""

from pathlib import Path

from terret_plugin_session_jsonl import JsonlStorage
from terret_sessions import SessionStorage
from terret_testing.storage_contract import SessionStorageContract


class TestJsonlStorage(SessionStorageContract):
    def open_storage(self, place: Path) -> SessionStorage:
        return JsonlStorage(place)
