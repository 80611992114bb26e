"""The plugin in a container: mounted, killed in the middle of a turn, resumed."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from terret_context import Container, Context, plugin
from terret_llm import create_user_message
from terret_plugin_session_jsonl import SessionJsonlConfig, session_jsonl
from terret_sessions import (
    SESSION_PERSISTENCE,
    AssistantChunk,
    Completed,
    Interrupted,
    Session,
    SessionPersistence,
    Sessions,
    StepEnd,
    ToolResult,
    TurnEnd,
    TurnStart,
    event_from_json,
)


class Host:
    """The context of a plugin whose sessions are kept in files."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.sessions = ctx[Sessions]

    @property
    def persistence(self) -> SessionPersistence:
        offered = self.ctx.get(SESSION_PERSISTENCE)
        assert offered is not None
        return offered

    async def resume(self, id: str) -> Session:
        async with self.persistence.prepare(id) as session:
            self.sessions.enter(session)
            self.sessions.announce(session)
        return session


@asynccontextmanager
async def host(root_folder: Path, **config: object) -> AsyncIterator[Host]:
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(session_jsonl, {"root": root_folder, **config})
        fiber = root.plugin(plugin(inject=(Sessions,), name="host")(_nothing))
        await root.settle()
        yield Host(fiber.ctx)


def _nothing(ctx: Context) -> None:
    return None


def turn(session: Session) -> None:
    number = session.last_turn + 1
    session.append("turn/start", TurnStart(number))
    session.append("user/message", create_user_message(f"turn {number}"), surface_op="append")
    session.append("turn/end", TurnEnd(number, Completed()))


async def test_a_flush_returns_when_the_file_has_it(tmp_path: Path) -> None:
    """M-119: What a flush acknowledged can be read by anybody."""
    async with host(tmp_path, windowMs=3_600_000) as at:
        session = at.sessions.create("s")
        turn(session)
        assert await at.persistence.list() == ()
        assert await at.sessions.flush(session)

        located = at.persistence.locate(session.header)
        assert located is not None
        lines = (await anyio.Path(located).read_bytes()).splitlines()
        assert [event_from_json(line) for line in lines[1:]] == list(session.events)
        assert await at.persistence.list() == (session.header,)
        assert at.persistence.supports_raw
        assert (await at.persistence.read_raw("s")).splitlines() == lines


CRASH = """
import anyio, sys
from terret_context import Container, plugin
from terret_llm import TextDelta, ToolCallBlock, create_assistant_message, create_user_message
from terret_plugin_session_jsonl import session_jsonl
from terret_sessions import (
    AssistantChunk, AssistantMessage, Sessions, StepStart, ToolCall, TurnStart,
)

@plugin(inject=(Sessions,))
async def talk(ctx):
    session = ctx[Sessions].create("s")
    session.append("turn/start", TurnStart(1))
    session.append("step/start", StepStart(1, 1))
    session.append("user/message", create_user_message("hi"), surface_op="append")
    for number in range(100):
        session.append("assistant/chunk", AssistantChunk(1, 1, TextDelta(0, str(number))))
    calls = [ToolCallBlock(id, "add", "{}") for id in ("ran", "waited")]
    message = create_assistant_message(calls, "p", "m")
    view = AssistantMessage(1, 1, message)
    session.append("assistant/message", view, surface_op="append", sources=[(3, 102)])
    session.append("tool/call", ToolCall(1, 1, "ran", "add", "{}"))
    await ctx[Sessions].flush(session)
    print("flushed", flush=True)
    while True:
        session.append("assistant/chunk", AssistantChunk(1, 1, TextDelta(0, "x" * 1000)))
        await anyio.lowlevel.checkpoint()

async def main():
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(session_jsonl, {"root": sys.argv[1], "windowMs": 0})
        await root.settle()
        await root.plugin(talk).ready()

anyio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
async def test_a_killed_process_loses_nothing_it_had_flushed(tmp_path: Path) -> None:
    """M-117, M-120, B-170, B-173: The turn is closed, its calls answered, the talk goes on."""
    command = [sys.executable, "-c", CRASH, str(tmp_path)]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        await BufferedByteReceiveStream(process.stdout).receive_until(b"flushed", 100)
        process.kill()
    async with host(tmp_path) as at:
        session = await at.resume("s")
        turn(session)
        await at.sessions.flush(session)
        views = [event.view for event in session.events]

    assert sum(isinstance(view, AssistantChunk) for view in views) >= 100
    assert [
        (view.block.tool_call_id, view.error and view.error.code)
        for view in views
        if isinstance(view, ToolResult)
    ] == [
        ("ran", "TOOL_OUTCOME_UNKNOWN"),
        ("waited", "TOOL_NOT_STARTED"),
    ]
    assert [view for view in views if isinstance(view, StepEnd | TurnEnd)] == [
        StepEnd(1, 1),
        TurnEnd(1, Interrupted()),
        TurnEnd(2, Completed()),
    ]
    async with host(tmp_path) as at:
        assert (await at.persistence.load("s")).events == tuple(session.events)


def test_the_defaults_need_no_configuration() -> None:
    """M-117: Sessions are in a folder beside the file that names the plugin."""
    assert SessionJsonlConfig().root == Path(".terret/sessions")


async def test_unloading_the_plugin_is_the_identity(tmp_path: Path) -> None:
    """M-118: Sessions go on without it, and it takes them up again where it left them."""
    async with Container() as root:
        root.plugin(Sessions)
        store = root.plugin(session_jsonl, {"root": tmp_path})
        fiber = root.plugin(plugin(inject=(Sessions,), name="host")(_nothing))
        await root.settle()
        before = root.snapshot()["listeners"]
        at = Host(fiber.ctx)
        session = at.sessions.create("s")
        turn(session)
        await store.dispose(check=True)
        turn(session)
        assert at.ctx.get(SESSION_PERSISTENCE) is None
        await root.plugin(session_jsonl, {"root": tmp_path}).ready()
        await at.sessions.flush(session)

        assert await at.persistence.read_from("s", 0) == tuple(session.events)
        assert root.snapshot()["listeners"].keys() == before.keys()
    async with host(tmp_path) as again:
        assert (await again.persistence.load("s")).events == tuple(session.events)
