"""Several processes on one session, and a clock that cannot be trusted."""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest

from durable_checks import (
    BACKENDS,
    check_invariants,
    check_log,
    storage_of,
    stored_events,
    write_harness,
)
from durable_process import Zygote, journal_of, needs_fork
from terret_sessions import Session, SessionEvent, StepEnd, TurnStart

pytestmark = [needs_fork, pytest.mark.parametrize("backend", BACKENDS)]


@pytest.mark.parametrize("race", range(3))
def test_of_two_processes_one_resumes_the_session(
    zygote: Zygote, tmp_path: Path, backend: str, race: int
) -> None:
    """M-118, B-177: The other is told who has it; when that one is dead, it is free."""
    write_harness(tmp_path, backend)
    zygote.start(tmp_path, ["turn"], seed=race).join()
    events = check_log(tmp_path, backend)
    (tmp_path / "journal").unlink()
    children = [zygote.start(tmp_path, ["turns"], seed=race + n) for n in range(2)]
    try:
        children[0].reaches("ready")
        children[0].reaches("refused")
        time.sleep(0.05)
    finally:
        alive = [child.kill() for child in children]
    lines = journal_of(tmp_path)
    (refusal,) = [" ".join(line) for line in lines if line[0] == "refused"]

    assert sorted(alive) == [False, True]
    assert [line[0] for line in lines].count("ready") == 1
    holder = children[alive.index(True)].pid
    assert f"SessionLockedError session 'talk' is being written by process {holder} on" in refusal
    events = check_log(tmp_path, backend, events)
    zygote.start(tmp_path, ["turn"]).join()
    check_log(tmp_path, backend, events)


def test_of_two_processes_one_begins_the_session(
    zygote: Zygote, tmp_path: Path, backend: str
) -> None:
    """M-118, B-176: The other is told who has it before anything has happened."""
    write_harness(tmp_path, backend)
    children = [zygote.start(tmp_path, ["turn"], ["wait", "go"], seed=n) for n in range(2)]
    try:
        children[0].reaches("refused")
        children[0].reaches("waits", "go")
    finally:
        for child in children:
            child.kill()
    lines = [" ".join(line) for line in journal_of(tmp_path)]
    (refusal,) = [line for line in lines if line.startswith("refused")]

    assert "session 'talk' is being written by process" in refusal
    assert lines.count("turn 1 completed") == 1
    check_log(tmp_path, backend)


def test_a_lock_that_was_removed_is_lost(zygote: Zygote, tmp_path: Path, backend: str) -> None:
    """E-499, E-500: Turns fail from then on; the log of who has the session now is whole."""
    write_harness(tmp_path, backend)
    first = zygote.start(tmp_path, ["turn"], ["wait", "go"], ["turn"], seed=1)
    first.reaches("waits", "go")
    for path in tmp_path.glob("sessions*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    second = zygote.start(tmp_path, ["turn"], ["wait", "on"], ["turn"], seed=2)
    second.reaches("waits", "on")
    (tmp_path / "go").touch()
    first.join()
    events = stored_events(tmp_path, backend)
    (tmp_path / "on").touch()
    second.join()

    ends = [line[1:3] for line in journal_of(tmp_path) if line[0] == "turn"]
    assert ends == [["1", "completed"], ["1", "completed"], ["2", "error"], ["2", "completed"]]
    last = stored_events(tmp_path, backend)
    assert last[: len(events)] == events
    anyio.run(check_invariants, last)


def test_a_reader_always_sees_the_beginning_of_the_log(
    zygote: Zygote, tmp_path: Path, backend: str
) -> None:
    """M-117: Whole events only, none of them changed later."""
    write_harness(tmp_path, backend)
    child = zygote.start(tmp_path, ["turns"], seed=7)
    seen: list[Sequence[SessionEvent]] = []
    try:
        child.reaches("ready")
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline or (len(seen[-1]) < 100 and child.alive):
            seen.append(stored_events(tmp_path, backend))
    finally:
        child.kill()
    final = list(check_log(tmp_path, backend, seen[-1]))

    assert len({len(events) for events in seen}) > 3
    for events in seen:
        assert list(events) == final[: len(events)]


def test_a_clock_that_jumps_changes_nothing_but_times(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-010: Order is that of the seqs; back by a year and on is stored as it was."""
    now = [time.time_ns()]
    monkeypatch.setattr("terret_sessions._session.time_ns", lambda: now[0])
    session = Session("talk")
    jumps: list[Callable[[], int]] = [lambda: -365 * 86_400, lambda: 5, lambda: 400 * 86_400]
    for number, jump in enumerate(jumps * 4):
        session.append("turn/start", TurnStart(number + 1))
        now[0] += jump() * 10**9
    session.append("step/end", StepEnd(1, 1))

    async def store() -> None:
        storage = storage_of(tmp_path, backend)
        await storage.acquire("talk")
        for start in range(0, len(session.events), 5):
            events = session.events[start : start + 5]
            await storage.append_batch(session.header, events, materialized=start > 0)
        (snapshot,) = await storage.list()
        await storage.close()
        assert snapshot.updated_at == session.events[-1].time

    anyio.run(store)

    assert list(stored_events(tmp_path, backend)) == list(session.events)
