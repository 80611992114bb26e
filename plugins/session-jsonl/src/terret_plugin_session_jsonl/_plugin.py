from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from terret_context import Config, Context, plugin
from terret_sessions import SESSION_PERSISTENCE, SessionCoordinator, Sessions

from ._storage import JsonlStorage


class SessionJsonlConfig(Config):
    root: Path = Path(".terret/sessions")
    """Folder of the sessions; one directory below it for each."""
    fsync: Literal["flush", "always", "never"] = "flush"
    """When the disk is told to keep what was written: at each flush, after each write, or never."""
    window_ms: int = Field(default=200, ge=0)
    """Milliseconds for which an event may wait to be written together with others."""


@plugin(config=SessionJsonlConfig, inject=(Sessions,), provides=(SESSION_PERSISTENCE,))
async def session_jsonl(ctx: Context, config: SessionJsonlConfig) -> AsyncIterator[None]:
    """Keeps sessions in files of JSON lines."""
    storage = JsonlStorage(config.root, fsync=config.fsync, grace=ctx.grace)
    async with SessionCoordinator(ctx, storage, window=config.window_ms / 1000) as coordinator:
        ctx.provide(SESSION_PERSISTENCE, coordinator)
        yield
