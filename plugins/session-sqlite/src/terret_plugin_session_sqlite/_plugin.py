from collections.abc import AsyncIterator
from pathlib import Path

from terret_context import Context, plugin
from terret_sessions import SESSION_PERSISTENCE, SessionCoordinator, Sessions
from terret_sessions.storage import StorageConfig

from ._storage import SqliteStorage


class SessionSqliteConfig(StorageConfig):
    path: Path = Path(".terret/sessions.db")
    """The database; it is made when the first event is stored."""


@plugin(config=SessionSqliteConfig, inject=(Sessions,), provides=(SESSION_PERSISTENCE,))
async def session_sqlite(ctx: Context, config: SessionSqliteConfig) -> AsyncIterator[None]:
    """Keeps sessions in a SQLite database."""
    storage = SqliteStorage(config.path, fsync=config.fsync, grace=ctx.grace)
    async with SessionCoordinator(
        ctx, storage, window=config.window_ms / 1000, lease_wait=config.lease_wait_seconds
    ) as coordinator:
        ctx.provide(SESSION_PERSISTENCE, coordinator)
        yield
