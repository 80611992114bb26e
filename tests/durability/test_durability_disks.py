"""A disk that is full, cannot be written, or loses what was stored, under a running harness."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from durable_checks import BACKENDS, check_log, stderr_of, stored_events, write_harness
from durable_process import Child, Zygote, journal_of, needs_fork

pytestmark = [needs_fork, pytest.mark.parametrize("backend", BACKENDS)]


def turns(folder: Path) -> list[str]:
    """How the turns of a harness ended."""
    return [line[2] for line in journal_of(folder) if line[0] == "turn"]


def finish(child: Child, folder: Path) -> None:
    child.join()
    assert journal_of(folder)[-1] == ["left"], stderr_of(folder)


def test_a_full_disk_stops_a_turn_and_no_more(zygote: Zygote, tmp_path: Path, backend: str) -> None:
    """M-116, M-119, E-504: Neither model nor tool is called; with room again all is stored."""
    write_harness(tmp_path, backend)
    acts = [["turn"], ["limit", 500], ["turn"], ["limit", -1], ["turn"]]
    finish(zygote.start(tmp_path, *acts, seed=3), tmp_path)

    assert turns(tmp_path) == ["completed", "error", "completed"]
    assert check_log(tmp_path, backend)


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[Callable[..., None]]:
    """Mount something at a place; gives a function that mounts it anew with other options."""

    def mount(*words: str) -> None:
        ended = subprocess.run(["mount", *words, str(place)], capture_output=True, text=True)
        if ended.returncode:
            pytest.skip(f"nothing can be mounted here: {ended.stderr.strip()}")

    if shutil.which("mount") is None:
        pytest.skip("there is no mount command")
    place.mkdir()
    mount(*options)
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_fills_up_while_the_harness_runs(
    zygote: Zygote, tmp_path: Path, backend: str
) -> None:
    """M-119: The same with a real file system that has no room left, and a kill on top."""
    folder = tmp_path / "disk"
    with mounted(folder, "-t", "tmpfs", "-o", "size=400k", "tmpfs") as mount:
        write_harness(folder, backend)
        child = zygote.start(folder, ["turns"], seed=4)
        try:
            child.reaches("unkept")
            mount("-o", "remount,size=8m")
            done, deadline = len(turns(folder)), time.monotonic() + 60
            while turns(folder)[done:].count("completed") < 2:
                assert child.alive, stderr_of(folder)
                assert time.monotonic() < deadline, "it does not go on"
                time.sleep(0.002)
        finally:
            child.kill()
        events = check_log(folder, backend)
        finish(zygote.start(folder, ["turn"]), folder)
        check_log(folder, backend, events)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs a read-only mount")
def test_a_place_that_cannot_be_written_is_refused_and_kept(
    zygote: Zygote, tmp_path: Path, backend: str
) -> None:
    """M-119, B-179: The message names the file; afterwards the talk goes on."""
    folder = tmp_path / "disk"
    with mounted(folder, "-t", "tmpfs", "tmpfs") as mount:
        write_harness(folder, backend)
        finish(zygote.start(folder, ["turn"]), folder)
        events = check_log(folder, backend)
        shutil.copytree(folder, tmp_path / "work")
        write_harness(tmp_path / "work", backend)
        mount("-o", "remount,ro")
        name = "sessions" if backend == "session-jsonl" else "sessions.db-locks"
        link = tmp_path / "work" / name
        shutil.rmtree(link)
        link.symlink_to(folder / link.name)
        zygote.start(tmp_path / "work", ["turn"]).join()
        refusal = " ".join(journal_of(tmp_path / "work")[-1])
        assert refusal.startswith("refused OSError"), refusal
        assert "Read-only file system" in refusal
        mount("-o", "remount,rw")
        assert list(stored_events(folder, backend)) == list(events)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder / "sessions", ignore_errors=True)
    for path in folder.glob("sessions.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _block(folder: Path) -> None:
    _remove(folder)
    (folder / "sessions").write_text("in the way")
    (folder / "sessions.db").mkdir()


def _unblock(folder: Path) -> None:
    (folder / "sessions").unlink()
    (folder / "sessions.db").rmdir()


def test_what_is_removed_under_a_running_harness_is_written_again(
    zygote: Zygote, tmp_path: Path, backend: str
) -> None:
    """M-118: Whoever cleans up takes nothing from a session that lives."""
    write_harness(tmp_path, backend)
    child = zygote.start(tmp_path, ["turn"], ["wait", "go"], ["turn"])
    child.reaches("waits", "go")
    _remove(tmp_path)
    (tmp_path / "go").touch()
    finish(child, tmp_path)

    assert turns(tmp_path) == ["completed", "completed"]
    assert check_log(tmp_path, backend)


def test_a_place_that_is_taken_stops_turns_until_it_is_free(
    zygote: Zygote, tmp_path: Path, backend: str
) -> None:
    """M-116, M-119: A file where the folder was, and a folder where the database was."""
    write_harness(tmp_path, backend)
    acts = [["turn"], ["wait", "go"], ["turn"], ["wait", "on"], ["turn"]]
    child = zygote.start(tmp_path, *acts)
    child.reaches("waits", "go")
    _block(tmp_path)
    (tmp_path / "go").touch()
    child.reaches("waits", "on")
    _unblock(tmp_path)
    (tmp_path / "on").touch()
    finish(child, tmp_path)

    assert turns(tmp_path) == ["completed", "error", "completed"]
    assert check_log(tmp_path, backend)
