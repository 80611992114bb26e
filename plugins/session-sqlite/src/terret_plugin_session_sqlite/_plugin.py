from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from terret_context import Config, Context, plugin
from terret_sessions import SESSION_PERSISTENCE, SessionCoordinator, Sessions

from ._storage import SqliteStorage


class SessionSqliteConfig(Config):
    path: Path = Path(".terret/sessions.db")
    """The database; it is made when the first event is stored."""
    fsync: Literal["flush", "always", "never"] = "flush"
    """When the disk is told to keep what was written: at each flush, after each write, or never."""
    window_ms: int = Field(default=200, ge=0)
    """Milliseconds for which an event may wait to be written together with others."""


@plugin(config=SessionSqliteConfig, inject=(Sessions,), provides=(SESSION_PERSISTENCE,))
async def session_sqlite(ctx: Context, config: SessionSqliteConfig) -> AsyncIterator[None]:
    """Keeps sessions in a SQLite database."""
    storage = SqliteStorage(config.path, fsync=config.fsync, grace=ctx.grace)
    async with SessionCoordinator(ctx, storage, window=config.window_ms / 1000) as coordinator:
        ctx.provide(SESSION_PERSISTENCE, coordinator)
        yield
