"""A session that has been used for years."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from durable_checks import storage_of
from terret_context import Container, Context, plugin
from terret_llm import TextDelta, create_assistant_message, create_user_message
from terret_sessions import (
    SESSION_PERSISTENCE,
    AssistantChunk,
    AssistantMessage,
    Completed,
    Session,
    SessionCoordinator,
    Sessions,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
)

CHUNKS = 94  # so that a turn has a hundred events


def add_turn(session: Session) -> None:
    number = session.last_turn + 1
    session.append("turn/start", TurnStart(number))
    session.append("user/message", create_user_message(f"{number}?"), surface_op="append")
    session.append("step/start", StepStart(number, 1))
    for at in range(CHUNKS):
        session.append("assistant/chunk", AssistantChunk(number, 1, TextDelta(0, f"{at} ")))
    answer = create_assistant_message(f"{number}!", "provider", "model")
    view = AssistantMessage(number, 1, answer)
    session.append("assistant/message", view, surface_op="append")
    session.append("step/end", StepEnd(number, 1))
    session.append("turn/end", TurnEnd(number, Completed()))


@pytest.mark.parametrize(
    ("backend", "length"), [("session-jsonl", 1_000_000), ("session-sqlite", 200_000)]
)
def test_a_very_long_session_is_stored_and_goes_on(
    tmp_path: Path, backend: str, length: int
) -> None:
    """M-117: All of it comes back, and a turn more costs what it always did."""
    anyio.run(_live_long, tmp_path, backend, length)


async def _live_long(folder: Path, backend: str, length: int) -> None:
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(_keeping(folder, backend))
        await root.settle()
        session = root[Sessions].create("talk")
        while len(session.events) < length:
            add_turn(session)
            if not session.last_turn % 1000:
                await anyio.lowlevel.checkpoint()
        assert await root[Sessions].flush(session)
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(_keeping(folder, backend))
        await root.settle()
        persistence = root.get(SESSION_PERSISTENCE)
        assert persistence is not None
        async with persistence.prepare("talk") as resumed:
            root[Sessions].enter(resumed)
            root[Sessions].announce(resumed)
        assert resumed.events[:length:997] == session.events[::997]
        add_turn(resumed)
        await root[Sessions].flush(resumed)
        suffix = await persistence.read_from("talk", length)

    assert len(suffix) == 101  # the marker behind the seed, and the turn
    assert len(resumed.derive_messages()) == 2 * (length // 100 + 1)
    assert resumed.last_turn == length // 100 + 1


def _keeping(folder: Path, backend: str) -> object:
    @plugin(inject=(Sessions,), provides=(SESSION_PERSISTENCE,), name="kept")
    async def kept(ctx: Context) -> AsyncIterator[None]:
        async with SessionCoordinator(ctx, storage_of(folder, backend)) as coordinator:
            ctx.provide(SESSION_PERSISTENCE, coordinator)
            yield

    return kept
