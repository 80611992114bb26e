from collections.abc import AsyncIterator
from pathlib import Path

from terret_context import Context, plugin
from terret_sessions import SESSION_PERSISTENCE, SessionCoordinator, Sessions
from terret_sessions.storage import StorageConfig

from ._storage import JsonlStorage


class SessionJsonlConfig(StorageConfig):
    root: Path = Path(".terret/sessions")
    """Folder of the sessions; one directory below it for each."""


@plugin(config=SessionJsonlConfig, inject=(Sessions,), provides=(SESSION_PERSISTENCE,))
async def session_jsonl(ctx: Context, config: SessionJsonlConfig) -> AsyncIterator[None]:
    """Keeps sessions in files of JSON lines."""
    storage = JsonlStorage(config.root, fsync=config.fsync, grace=ctx.grace)
    async with SessionCoordinator(
        ctx, storage, window=config.window_ms / 1000, lease_wait=config.lease_wait_seconds
    ) as coordinator:
        ctx.provide(SESSION_PERSISTENCE, coordinator)
        yield
