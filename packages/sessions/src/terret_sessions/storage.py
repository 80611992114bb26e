"""What a storage of sessions on one machine needs: rows in blocks, locks, file names, threads."""

from ._blocking import BlockingCalls
from ._file_names import file_name
from ._line_blocks import LineBlock, line_blocks
from ._write_lock import WriteLock

__all__ = ["BlockingCalls", "LineBlock", "WriteLock", "file_name", "line_blocks"]
