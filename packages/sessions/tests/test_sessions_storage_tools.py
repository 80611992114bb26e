"""What storages on one machine are built of."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from terret_llm import create_user_message
from terret_sessions import Session, SessionLockedError, event_lines
from terret_sessions.storage import StorageConfig, WriteLock, file_name, line_blocks, make_folder


def conversation(*sizes: int) -> Session:
    session = Session("s")
    for size in sizes:
        session.append("user/message", create_user_message("x" * size), surface_op="append")
    return session


@pytest.mark.parametrize("sizes", [[], [10], [10] * 1234, [10, 2_000_000, 10], [500_000] * 3])
async def test_blocks_have_all_rows_and_are_never_large(sizes: list[int]) -> None:
    """M-117: A few hundred events together, large ones by themselves."""
    events = conversation(*sizes).events
    blocks = await line_blocks(events)

    assert [seq for block in blocks for seq in block.seqs] == list(range(len(events)))
    assert b"".join(block.lines for block in blocks) == b"".join(event_lines(events))
    assert all(block.lines.count(b"\n") == len(block.seqs) <= 250 for block in blocks)
    assert all(len(block.seqs) == 1 or len(block.lines) <= 1 << 20 for block in blocks)


async def test_blocks_begin_where_the_events_do() -> None:
    """M-117: Whatever was stored before."""
    blocks = await line_blocks(conversation(*[10] * 600).events[123:])

    assert [block.seqs for block in blocks] == [range(123, 373), range(373, 600)]


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be synced")
def test_the_disk_keeps_the_names_of_a_folder_and_those_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-119: Else a loss of power could take away the folder of what was acknowledged."""
    told: list[int] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda fd: told.append(os.fstat(fd).st_ino))
    for _ in range(2):
        make_folder(Path("a/b/c"))

    assert Path("a/b/c").is_dir()
    assert sorted(told) == sorted(Path(name).stat().st_ino for name in (".", "a", "a/b"))


def test_a_lock_has_one_holder_until_it_is_released(tmp_path: Path) -> None:
    """M-118, B-177: The next one is told its name."""
    path = tmp_path / file_name("s")
    lock = WriteLock(path, "s")
    with pytest.raises(SessionLockedError, match=f"'s' is being written by process {os.getpid()} "):
        WriteLock(path, "s")
    lock.release(remove=True)
    assert not path.exists()
    WriteLock(path, "s").release()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_lock_that_cannot_be_written_is_not_kept(tmp_path: Path) -> None:
    """M-119: The second attempt fails as the first; it finds no holder."""
    path = tmp_path / "s"
    path.symlink_to("/dev/full")
    for _ in range(2):
        with pytest.raises(OSError, match=r"\[Errno"):
            WriteLock(path, "s")


def test_the_settings_of_storages_have_defaults() -> None:
    """M-119: A flush reaches the disk, and an event waits for at most 200 ms."""
    assert StorageConfig().model_dump(by_alias=True) == {
        "fsync": "flush",
        "windowMs": 200,
        "leaseWaitSeconds": 15,
    }


@pytest.mark.parametrize(
    "config",
    [
        {"fsync": "sometimes"},
        {"windowMs": -1},
        {"leaseWaitSeconds": -1},
        {"window_ms": "soon"},
        {"path": "x"},
    ],
)
def test_wrong_settings_are_refused(config: dict[str, object]) -> None:
    """M-117: Unknown keys and values out of range."""
    with pytest.raises(ValidationError):
        StorageConfig.model_validate(config)
