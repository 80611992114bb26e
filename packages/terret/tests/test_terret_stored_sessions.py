"""`terret sessions` in this process, on sessions that a storage was given."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import anyio
import pytest

from terret_context import Container
from terret_llm import create_user_message
from terret_plugin_session_jsonl import session_jsonl
from terret_sessions import (
    Completed,
    MaxSteps,
    Session,
    Sessions,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    event_to_json,
)

Run = Callable[..., tuple[int, str, str]]
HARNESS = """
plugins:
  sessions: {}
  session-jsonl: {}
"""
ENDS: dict[str, tuple[TurnEndReason | None, ...]] = {
    "calm": (Completed(), Completed()),
    "busy": (Completed(), None),
    "default:dev:shop:1": (MaxSteps(3),),
}


@pytest.fixture(autouse=True)
def sessions(tmp_path: Path) -> dict[str, Session]:
    """Stores three sessions: a calm one, one with an open turn, one of a tenant."""
    (tmp_path / "harness.yml").write_text(HARNESS)
    stored = {id: _session(id, ends) for id, ends in ENDS.items()}
    anyio.run(_store, tmp_path, stored.values())
    return stored


def _session(id: str, ends: Iterable[TurnEndReason | None]) -> Session:
    session = Session(id, meta={"agentPreset": "main"})
    for number, end in enumerate(ends, 1):
        session.append("turn/start", TurnStart(number))
        message = create_user_message(f"prompt {number}")
        session.append("user/message", message, surface_op="append")
        if end is not None:
            session.append("turn/end", TurnEnd(number, end))
    return session


async def _store(folder: Path, sessions: Iterable[Session]) -> None:
    async with Container() as root:
        root.plugin(Sessions)
        root.plugin(session_jsonl, {"root": folder / ".terret" / "sessions"})
        await root.settle()
        for session in sessions:
            live = root[Sessions].prepare(header=session.header)
            root[Sessions].enter(live)
            root[Sessions].announce(live)
            for event in session.events:
                live.append(event.type, event.view, surface_op=event.surface_op)


def _log(folder: Path, id: str) -> Path:
    return folder / ".terret" / "sessions" / id / "session.jsonl"


def test_the_list_says_of_each_what_came_of_it(terret: Run) -> None:
    code, out, _ = terret("sessions", "list")
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert code == 0
    assert rows["calm"][1:5] == ["main", "completed", "2", "turns"]
    assert rows["busy"][1:5] == ["main", "open", "2", "turns"]
    assert rows["default:dev:shop:1"][1:5] == ["shop", "max-steps", "1", "turn"]


def test_the_list_may_be_of_one_agent(terret: Run) -> None:
    assert terret("sessions", "list", "shop")[1].startswith("default:dev:shop:1")
    code, out, err = terret("sessions", "list", "nobody")
    assert (code, out, err) == (0, "", "no sessions are stored of agent nobody\n")


def test_a_damaged_log_hides_no_other_and_is_named_when_it_is_asked_for(
    terret: Run, tmp_path: Path
) -> None:
    log = _log(tmp_path, "calm")
    header, *rows = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([header, b"{broken\n", *rows]))
    code, listed, _ = terret("sessions", "list")
    assert (code, len(listed.splitlines())) == (0, 3)
    for command in ("show", "export", "fork"):
        code, out, err = terret("sessions", command, "calm")
        assert (code, out) == (2, "")
        assert "session.jsonl, line 2: " in err


def test_a_damaged_header_is_left_out_of_the_list(
    terret: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = _log(tmp_path, "calm")
    log.write_bytes(log.read_bytes().replace(b'"version":0', b'"version":7'))
    code, listed, _ = terret("sessions", "list")
    assert (code, len(listed.splitlines())) == (0, 2)
    assert "version 7" in caplog.text


def test_a_store_that_cannot_be_read_is_refused_by_every_command(
    terret: Run, tmp_path: Path
) -> None:
    (tmp_path / "harness.yml").write_text(HARNESS.replace("session-jsonl", "session-sqlite"))
    store = tmp_path / ".terret" / "sessions.db"
    store.write_text("no database, but long enough to look like one " * 100)
    for words in (["list"], ["show", "calm"], ["export", "calm"]):
        code, out, err = terret("sessions", *words)
        assert (code, out) == (2, "")
        assert "sessions.db" in err


def test_an_export_is_the_log_and_nothing_else(terret: Run, sessions: dict[str, Session]) -> None:
    code, out, err = terret("sessions", "export", "calm")
    assert (code, err) == (0, "")
    wanted = [json.loads(event_to_json(event)) for event in sessions["calm"].events]
    given = [json.loads(line) for line in out.splitlines()]
    assert [row["data"] for row in given] == [row["data"] for row in wanted]
    assert [row["seq"] for row in given] == list(range(6))


def test_an_export_of_an_open_turn_closes_it_in_the_copy_only(terret: Run, tmp_path: Path) -> None:
    before = _log(tmp_path, "busy").read_bytes()
    _, out, _ = terret("sessions", "export", "busy")
    assert json.loads(out.splitlines()[-1])["data"]["reason"] == {"kind": "interrupted"}
    assert _log(tmp_path, "busy").read_bytes() == before


def test_a_projection_needs_its_plugin(terret: Run, tmp_path: Path) -> None:
    code, _, err = terret("sessions", "export", "calm", "--protocol", "v1")
    assert (code, err) == (2, "terret: --protocol v1 needs the plugin loop-events in harness.yml\n")
    (tmp_path / "harness.yml").write_text(HARNESS + "  loop-events: {}\n")
    code, out, _ = terret("sessions", "export", "calm", "--protocol", "v1")
    assert code == 0
    assert all("type" in json.loads(line) for line in out.splitlines())
    code, _, err = terret("sessions", "export", "calm", "--protocol", "v9")
    assert code == 2
    assert "v9" in err


def test_a_deleted_session_is_gone(terret: Run, tmp_path: Path) -> None:
    assert terret("sessions", "delete", "calm") == (0, "", "deleted calm\n")
    assert not _log(tmp_path, "calm").parent.exists()
    code, _, err = terret("sessions", "delete", "calm")
    assert (code, err) == (2, 'terret: there is no session "calm"; see: terret sessions list\n')
    assert len(terret("sessions", "list")[1].splitlines()) == 2


def test_a_damaged_session_can_be_deleted(terret: Run, tmp_path: Path) -> None:
    _log(tmp_path, "calm").write_bytes(b"{}\n{}\n")
    assert terret("sessions", "delete", "calm")[0] == 0


def test_a_session_in_use_is_not_deleted(terret: Run, tmp_path: Path) -> None:
    async def hold() -> None:
        from terret_plugin_session_jsonl import JsonlStorage

        storage = JsonlStorage(tmp_path / ".terret" / "sessions")
        await storage.acquire("calm")
        outcome.append(await anyio.to_thread.run_sync(terret, "sessions", "delete", "calm"))
        await storage.close()

    outcome: list[tuple[int, str, str]] = []
    anyio.run(hold)
    ((code, _, err),) = outcome
    assert code == 2
    assert "session 'calm' is being written by process " in err
    assert _log(tmp_path, "calm").exists()


def test_a_fork_begins_like_its_parent(terret: Run) -> None:
    assert terret("sessions", "fork", "calm", "--at", "2", "--as", "copy")[:2] == (0, "copy\n")
    _, shown, _ = terret("sessions", "show", "copy")
    assert shown.splitlines()[1:] == ["turn 1", "  user      prompt 1", "  ended     completed"]
    _, fresh, _ = terret("sessions", "fork", "busy")
    _, shown, _ = terret("sessions", "show", fresh.strip())
    assert "interrupted" in shown


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("calm", "--as", "busy"), 'there is a session "busy" already'),
        (("calm", "--at", "99"), "boundary 99 is not between 0 and 5"),
        (("calm", "--at", "1"), "turn 1 is open there"),
        (("none",), 'there is no session "none"'),
    ],
)
def test_a_fork_that_cannot_be_is_refused(
    terret: Run, words: tuple[str, ...], complaint: str
) -> None:
    code, out, err = terret("sessions", "fork", *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert len(terret("sessions", "list")[1].splitlines()) == 3


def test_without_a_storage_every_command_says_so(terret: Run, tmp_path: Path) -> None:
    (tmp_path / "harness.yml").write_text("plugins: {sessions: {}}\n")
    for words in (["list"], *(["show", "s"], ["export", "s"], ["delete", "s"], ["fork", "s"])):
        code, _, err = terret("sessions", *words)
        assert code == 2
        assert "nothing stores sessions" in err
