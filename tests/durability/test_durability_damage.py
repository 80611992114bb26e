"""Files that were cut or had a bit turned over: refused or read, never half read."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from durable_checks import BACKENDS, check_log, stored_events, write_harness
from durable_process import Zygote, journal_of, needs_fork
from terret_sessions import SessionCorruptionError, SessionEvent, SessionFormatUnsupportedError

pytestmark = [needs_fork, pytest.mark.parametrize("backend", BACKENDS)]
FLIPS = 150
CUTS = 40


@pytest.fixture
def folder(zygote: Zygote, tmp_path: Path, backend: str) -> Path:
    """The folder of a harness that has talked and left."""
    folder = tmp_path / "harness"
    write_harness(folder, backend)
    zygote.start(folder, ["turn"], ["turn"], seed=5).join()
    assert len(stored_events(folder, backend)) > 50
    return folder


def file_of(folder: Path, backend: str) -> Path:
    if backend == "session-sqlite":
        return folder / "sessions.db"
    (path,) = (folder / "sessions").glob("*/session.jsonl")
    return path


def restored(path: Path, count: int) -> Iterator[bytes]:
    """What is in the file, which is whole again before each attempt."""
    whole = path.read_bytes()
    for _ in range(count):
        path.write_bytes(whole)
        yield whole


def try_to_read(folder: Path, backend: str) -> tuple[Sequence[SessionEvent], str]:
    """What is stored, and what is said instead."""
    try:
        return stored_events(folder, backend), ""
    except (SessionCorruptionError, SessionFormatUnsupportedError) as error:
        return (), str(error)


def possible(backend: str, count: int, whole: bytes, at: int) -> set[int]:
    """How many events may be found. A database may have lost the id, and find nothing."""
    if backend == "session-sqlite":
        return {0, count}
    in_last = at >= whole[:-1].rfind(b"\n")  # or its line break, which joins it with the one before
    return {count, count - 1, count - 2} if in_last else {count}


def test_a_bit_that_turned_over_never_shortens_a_log(folder: Path, backend: str) -> None:
    """M-117, M-120, B-172: The damage is named, or all events are there; nothing is written.

    Only the last record may be taken for one that was not completely written.
    """
    path, chance = file_of(folder, backend), random.Random(1)
    count = len(stored_events(folder, backend))
    refusals = []
    for whole in restored(path, FLIPS):
        content, at = bytearray(whole), chance.randrange(len(whole))
        content[at] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        events, refusal = try_to_read(folder, backend)
        refusals += [refusal] if refusal else []
        assert refusal or len(events) in possible(backend, count, whole, at)
        assert path.read_bytes() == content

    assert len(refusals) > 10
    assert all(str(path) in refusal for refusal in refusals)


def test_a_log_may_be_cut_anywhere(zygote: Zygote, folder: Path, backend: str) -> None:
    """M-120, B-170: Lines that are left are read; a database that lost pages is refused."""
    path, chance = file_of(folder, backend), random.Random(2)
    before = list(stored_events(folder, backend))
    for whole in restored(path, CUTS):
        path.write_bytes(whole[: chance.randrange(1, len(whole))])
        events, refusal = try_to_read(folder, backend)
        assert list(events) == before[: len(events)]
        assert (str(path) in refusal) == (backend == "session-sqlite")


def test_a_talk_goes_on_after_its_log_was_cut(zygote: Zygote, folder: Path, backend: str) -> None:
    """M-120, B-170: Or is refused, and its file is left for whoever can mend it."""
    path = file_of(folder, backend)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size * 2 // 3)
    cut = path.read_bytes()
    (folder / "journal").unlink()
    zygote.start(folder, ["turn"], seed=6).join()
    last = journal_of(folder)[-1]

    if backend == "session-jsonl":
        assert last == ["left"]
        check_log(folder, backend)
    else:
        assert last[:2] == ["refused", "SessionCorruptionError"]
        assert path.read_bytes() == cut
