"""What has to hold for a session whatever was done to the process that wrote it."""

from collections.abc import Sequence
from pathlib import Path

import anyio

from durable_plugin import check_conversation
from durable_process import AGENT, SESSION, journal_of
from terret_context import Container
from terret_plugin_session_jsonl import JsonlStorage
from terret_plugin_session_sqlite import SqliteStorage
from terret_sessions import (
    Session,
    SessionEvent,
    Sessions,
    SessionStorage,
    ToolCall,
    ToolResult,
    log_invariants,
    repair_closers,
)

BACKENDS = {
    "session-jsonl": "root: FOLDER/sessions",
    "session-sqlite": "path: FOLDER/sessions.db",
}
LAYOUT = """\
plugins:
  llm: {}
  sessions: {}
  log-invariants: {}
  system-prompt: {}
  agents: {}
  tools: {}
  BACKEND: {PLACE, windowMs: 3, leaseWaitSeconds: 0}
  checkpoint-policy: {}
  durable: {use: "PLUGIN", journal: "FOLDER/journal"}
  agent-loop: {agents: [{id: AGENT, provider: rules, model: rules}]}
"""


def write_harness(folder: Path, backend: str, layout: str = LAYOUT) -> None:
    """Write the harness.yml of a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        "BACKEND": backend,
        "PLACE": BACKENDS[backend],
        "PLUGIN": str(Path(__file__).with_name("durable_plugin.py")),
        "AGENT": AGENT,
        "FOLDER": str(folder),
    }
    for name, value in names.items():
        layout = layout.replace(name, value)
    (folder / "harness.yml").write_text(layout, encoding="utf-8")


def storage_of(folder: Path, backend: str) -> SessionStorage:
    """The storage of a harness, as another process opens it."""
    if backend == "session-jsonl":
        return JsonlStorage(folder / "sessions")
    return SqliteStorage(folder / "sessions.db")


def stored_events(folder: Path, backend: str) -> Sequence[SessionEvent]:
    """As `load_events`, for who is not asynchronous."""
    return anyio.run(load_events, folder, backend)


async def load_events(folder: Path, backend: str) -> Sequence[SessionEvent]:
    """What is stored of the session; empty if nothing is."""
    storage = storage_of(folder, backend)
    log = await storage.load_stored(SESSION)
    await storage.close()
    return () if log is None else log.events


def check_log(
    folder: Path, backend: str, before: Sequence[SessionEvent] = ()
) -> Sequence[SessionEvent]:
    """Check what is stored against the journal and what was stored before, and return it."""
    events = stored_events(folder, backend)
    assert list(events[: len(before)]) == list(before), "stored events were changed or lost"
    journal = journal_of(folder)
    kept = max(map(int, noted(journal, "kept")), default=0)
    assert len(events) >= kept, f"{kept} events were acknowledged, {len(events)} are there"
    check_effects(events, journal)
    balanced = [*events, *repair_closers(events)]
    anyio.run(check_invariants, balanced)
    check_conversation(Session(seed=balanced).derive_messages())
    assert ["crashed"] not in journal, stderr_of(folder)
    return events


def noted(journal: Sequence[Sequence[str]], word: str) -> list[str]:
    """What follows a word in the lines that begin with it."""
    return [line[1] for line in journal if line[0] == word]


def stderr_of(folder: Path) -> str:
    """What the harness had to say."""
    return (folder / "stderr").read_text("utf-8")


def check_effects(events: Sequence[SessionEvent], journal: Sequence[Sequence[str]]) -> None:
    """Whatever happened outside is in the log, and what the log denies did not happen."""
    began = set(noted(journal, "began"))
    called = {event.view.call_id for event in events if isinstance(event.view, ToolCall)}
    assert began <= called, "a tool ran that is not in the log"
    messages = {message.id for message in Session(seed=events).derive_messages()}
    assert set(noted(journal, "model")) <= messages, "a model saw what is not in the log"
    for event in events:
        view = event.view
        if isinstance(view, ToolResult) and view.error and view.error.code == "TOOL_NOT_STARTED":
            assert view.block.tool_call_id not in began, "a tool ran that the log denies"


async def check_invariants(events: Sequence[SessionEvent]) -> None:
    """Replay a log under the checks of a live one."""
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(log_invariants)
        await root.settle()
        session = root[Sessions].create()
        for event in events:
            session.append(
                event.type,
                event.view,
                surface_op=event.surface_op,
                sources=event.sources,
                ignorable=event.ignorable,
            )
