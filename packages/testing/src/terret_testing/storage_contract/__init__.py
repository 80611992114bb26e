"""The contract of storages of sessions as a test suite that any storage can run.

```python
from terret_testing.storage_contract import SessionStorageContract


class TestMyStorage(SessionStorageContract):
    def open_storage(self, place: Path) -> SessionStorage:
        return MyStorage(place / "sessions.db")
```

The tests run on asyncio and on trio. They open several storages at one place, as several processes
would, and name the rows of the behaviour checklist that they prove. What only one format can do,
such as losing half a record, is for the tests of its own storage.
"""

from ._keeping import Keeping
from ._storing import Storing

__all__ = ["SessionStorageContract"]


class SessionStorageContract(Keeping, Storing):
    """All tests of storages; inherit from it and write `open_storage`."""
