"""What a storage of sessions on one machine needs: settings, rows, files, locks, threads."""

from ._blocking import BlockingCalls
from ._file_names import file_name
from ._folders import keep_names, make_folder
from ._line_blocks import LineBlock, line_blocks
from ._storage_config import Fsync, StorageConfig
from ._write_lock import WriteLock

__all__ = [
    "BlockingCalls",
    "Fsync",
    "LineBlock",
    "StorageConfig",
    "WriteLock",
    "file_name",
    "keep_names",
    "line_blocks",
    "make_folder",
]
