"""What a storage of sessions on one machine needs: locks, file names, blocking calls."""

from ._blocking import BlockingCalls
from ._file_names import file_name
from ._write_lock import WriteLock

__all__ = ["BlockingCalls", "WriteLock", "file_name"]
