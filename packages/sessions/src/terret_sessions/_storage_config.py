from typing import Literal

from pydantic import Field

from terret_context import Config

Fsync = Literal["flush", "always", "never"]


class StorageConfig(Config):
    """What storages on one machine let their users choose."""

    fsync: Fsync = "flush"
    """When the disk is told to keep what was written: at each flush, after each write, or never."""
    window_ms: int = Field(default=200, ge=0)
    """Milliseconds for which an event may wait to be written together with others."""
    lease_wait_seconds: float = Field(default=15, ge=0)
    """Seconds for which a resume waits while another process has the session."""
