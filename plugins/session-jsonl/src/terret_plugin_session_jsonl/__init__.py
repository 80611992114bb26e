"""Session logs as JSON lines: one directory a session, one event a line."""

from ._plugin import SessionJsonlConfig, session_jsonl
from ._storage import JsonlStorage

__all__ = ["JsonlStorage", "SessionJsonlConfig", "session_jsonl"]
