"""The storage on its files: what it writes, reads, refuses, cuts and locks."""

import io
import json
import os
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from hypothesis import given
from hypothesis import strategies as st

from terret_llm import (
    Message,
    ToolCallBlock,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_plugin_session_jsonl import JsonlStorage
from terret_sessions import (
    AssistantMessage,
    LastTurn,
    Session,
    SessionChangedError,
    SessionCorruptionError,
    SessionFormatUnsupportedError,
    SessionLockedError,
    StepStart,
    ToolResult,
    TurnStart,
    derive_messages,
    event_to_json,
    repair_closers,
)

CASES = Path(__file__).parents[4] / "shared" / "data" / "faults" / "cases"
needs_cases = pytest.mark.skipif(not CASES.exists(), reason="the fault cases are not here")
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="limits and signals of POSIX")


def conversation(count: int = 3, id: str = "s") -> Session:
    session = Session(id)
    for number in range(count):
        message = create_user_message(f"message {number}")
        session.append("user/message", message, surface_op="append")
    return session


def path_of(root: Path, session: Session) -> Path:
    return Path(JsonlStorage(root).locate(session.header))


def put(root: Path, session: Session, tail: bytes = b"") -> Path:
    """Write the file of a session as another process would have left it."""
    path = path_of(root, session)
    path.parent.mkdir(parents=True)
    path.write_bytes(text(session) + tail)
    return path


def text(session: Session) -> bytes:
    header = json.dumps(session.header.to_wire(), separators=(",", ":")).encode()
    return b"".join(row + b"\n" for row in [header, *map(event_to_json, session.events)])


@asynccontextmanager
async def writer(root: Path, **options: Any) -> AsyncIterator[JsonlStorage]:
    storage = JsonlStorage(root, **options)
    await storage.acquire("s")
    try:
        yield storage
    finally:
        await storage.close()


async def write(storage: JsonlStorage, session: Session, start: int = 0) -> None:
    events = session.events[start:]
    await storage.append_batch(session.header, events, materialized=start > 0)


async def test_a_file_has_a_header_and_one_event_a_line(tmp_path: Path) -> None:
    """M-117: Written in batches, read back equal, and shown verbatim."""
    session = conversation()
    async with writer(tmp_path) as storage:
        assert await storage.load_stored("s") is None
        await write(storage, session)
        session.append("user/message", create_user_message("later"), surface_op="append")
        await write(storage, session, 3)
        stored = await storage.load_stored("s")
        raw = await storage.read_raw("s")

    lines = path_of(tmp_path, session).read_bytes().split(b"\n")
    assert json.loads(lines[0]) == session.header.to_wire()
    assert lines[1:] == [*map(event_to_json, session.events), b""]
    assert stored is not None
    assert (stored.header, stored.events) == (session.header, tuple(session.events))
    assert stored.torn_marker is None
    assert raw == b"\n".join(lines)


async def test_what_was_written_before_is_passed_over(tmp_path: Path) -> None:
    """M-119: A write that is repeated, because nobody saw its end, writes nothing twice."""
    session = conversation(2)
    async with writer(tmp_path) as storage:
        await write(storage, session)
        session.append("user/message", create_user_message("later"), surface_op="append")
        await write(storage, session)
        await write(storage, session)

    assert path_of(tmp_path, session).read_bytes() == text(session)


async def test_a_suffix_is_read_by_its_first_seq(tmp_path: Path) -> None:
    """M-117: Rows before it are not read."""
    session = conversation(4)
    put(tmp_path, session)

    suffix = await JsonlStorage(tmp_path).load_stored_from("s", 2)

    assert suffix == tuple(session.events[2:])
    assert await JsonlStorage(tmp_path).load_stored_from("nobody", 0) is None


async def test_revisions_change_with_every_write(tmp_path: Path) -> None:
    """M-117: In the list and for one session alike."""
    session = conversation(1)
    revisions = []
    async with writer(tmp_path) as storage:
        assert await storage.read_stored_revision("s") is None
        for start in (0, 1, 2):
            await write(storage, session, start)
            (snapshot,) = await storage.list()
            revisions.append(snapshot.revision)
            assert await storage.read_stored_revision("s") == snapshot.revision
            session.append("user/message", create_user_message("x"), surface_op="append")

    assert len(set(revisions)) == 3


async def test_the_list_shows_what_can_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """M-117: Oldest first; a damaged header hides nobody else, and is named."""
    sessions = [conversation(1, id) for id in ("b", "a", "c")]
    for session in sessions:
        put(tmp_path, session)
    path_of(tmp_path, sessions[2]).write_bytes(b'{"version":9,"id":"c"}\n{}\n')
    expected = sorted(sessions[:2], key=lambda each: (each.header.created_at, each.id))

    snapshots = await JsonlStorage(tmp_path).list()

    assert [each.header for each in snapshots] == [each.header for each in expected]
    assert f"{path_of(tmp_path, sessions[2])}, line 1" in caplog.text
    assert "version 9 is not 0" in caplog.text


@pytest.mark.parametrize(
    "tail",
    [
        b'{"type":"user/mess',
        b'{"type":"user/mess\n',
        b'{"type":"user/mess\n\n\n',
        b"\0" * 4096,
        b'{"type":"user/mess' + b"\0" * 100,
        b"\n \n",
        '{"text":"é'.encode()[:-1],
    ],
)
async def test_an_incomplete_record_at_the_end_is_cut_off(
    tmp_path: Path, tail: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """M-120, B-170, B-171: By who writes, not by who reads; the next row begins a line."""
    session = conversation()
    path = put(tmp_path, session, tail)
    seen = await JsonlStorage(tmp_path).load_stored("s")
    assert path.read_bytes() == text(session) + tail
    async with writer(tmp_path) as storage:
        stored = await storage.load_stored("s")
        assert stored is not None
        await storage.commit_repair(stored.header, stored.torn_marker, ())
        session.append("user/message", create_user_message("later"), surface_op="append")
        await write(storage, session, 3)

    assert stored == seen
    assert len(stored.events) == 3
    assert path.read_bytes() == text(session)
    assert "incomplete record was cut off" in caplog.text


@given(cut=st.integers(0, 2000))
async def test_a_file_may_end_at_any_byte(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """M-120, B-170: Every whole record is read, and appending makes a whole file again."""
    session = conversation()
    whole = text(session)
    path = put(root := tmp_path_factory.mktemp("cut"), session)
    path.write_bytes(whole[: min(cut, len(whole))])
    async with writer(root) as storage:
        stored = await storage.load_stored("s")
        count = 0 if stored is None else len(stored.events)
        if stored is not None:
            await storage.commit_repair(stored.header, stored.torn_marker, ())
        await write(storage, session, count)

    assert path.read_bytes().rstrip() == whole.rstrip()


async def test_a_record_that_is_completed_behind_the_end_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-117: The reader has seen the end of the file, and does not read on in mid-line."""
    session = conversation(5)
    *rows, last = text(session).splitlines(keepends=True)
    path = put(tmp_path, conversation(0))
    path.write_bytes(b"".join(rows) + last[:20])

    class Growing(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            count = super().readinto(buffer)
            if count == 0 and path.stat().st_size == len(text(session)) - len(last) + 20:
                with open(path, "ab") as file:
                    file.write(last[20:])
            return count

    storage = JsonlStorage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda self, mode: io.BufferedReader(Growing(self, mode)))
        log = await storage.load_stored("s")
    assert log is not None
    assert list(log.events) == list(session.events[:-1])


async def test_a_last_record_without_line_break_is_whole(tmp_path: Path) -> None:
    """M-120: An editor that drops the last line break costs nothing."""
    session = conversation()
    path = put(tmp_path, session)
    path.write_bytes(text(session)[:-1])
    async with writer(tmp_path) as storage:
        stored = await storage.load_stored("s")
        session.append("user/message", create_user_message("later"), surface_op="append")
        await write(storage, session, 3)

    assert stored is not None
    assert (len(stored.events), stored.torn_marker) == (3, None)
    assert path.read_bytes() == text(session)


async def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """B-170: Some editors write one."""
    session = conversation()
    path = put(tmp_path, session)
    path.write_bytes(b"\xef\xbb\xbf" + text(session))

    stored = await JsonlStorage(tmp_path).load_stored("s")

    assert stored is not None
    assert stored.events == tuple(session.events)


Damage = Callable[[list[bytes]], None]


def _break(rows: list[bytes]) -> None:
    rows[2] = rows[2][:20]


def _lose(rows: list[bytes]) -> None:
    del rows[2]


def _swap(rows: list[bytes]) -> None:
    rows[0] = rows[0].replace(b'"id":"s"', b'"id":"t"')


@pytest.mark.parametrize(
    ("damage", "place", "reason"),
    [
        (_break, "line 3", "not JSON"),
        (_lose, "line 3", "seq 2 stands where 1 is next"),
        (_swap, "line 1", "this is session 't'"),
    ],
)
async def test_damage_before_the_end_is_refused_with_file_and_line(
    tmp_path: Path, damage: Damage, place: str, reason: str
) -> None:
    """M-117, M-120, B-172: And the file is left as it was, whoever asks."""
    session = conversation()
    path = put(tmp_path, session)
    rows = text(session).split(b"\n")
    damage(rows)
    path.write_bytes(b"\n".join(rows))
    async with writer(tmp_path) as storage:
        with pytest.raises(SessionCorruptionError, match=reason) as caught:
            await storage.load_stored("s")

    assert (caught.value.artifact, caught.value.place) == (str(path), place)
    assert path.read_bytes() == b"\n".join(rows)


@pytest.mark.parametrize(
    ("row", "place", "reason"),
    [
        (b'{"version":1,"id":"s","createdAt":1}', 1, "version 1"),
        (b'{"version":0,"id":"s","createdAt":1,"x":1}', 1, "unknown key 'x'"),
        (b'{"type":"else/where","seq":0,"time":1,"data":{}}', 2, "seq 0, else/where"),
        (b'{"type":"turn/start","seq":0,"time":1,"data":{"n":1}}', 2, "seq 0, turn/start"),
        (
            b'{"type":"steering/message","seq":0,"time":1,"data":{"text":"x"}}',
            2,
            "seq 0, steering/message",
        ),
        (b'{"type":"turn/start","seq":0,"time":1e999,"data":{"turn":1}}', 2, "not finite"),
    ],
)
async def test_another_version_or_form_is_refused_by_name(
    tmp_path: Path, row: bytes, place: int, reason: str
) -> None:
    """M-117, S-110: Naming seq and type; the file is unchanged."""
    session = conversation(1)
    path = put(tmp_path, session)
    rows = text(session).split(b"\n")
    rows[place - 1] = row
    path.write_bytes(b"\n".join(rows))

    with pytest.raises(SessionFormatUnsupportedError, match=reason) as caught:
        await JsonlStorage(tmp_path).load_stored("s")

    assert (caught.value.artifact, caught.value.place) == (str(path), f"line {place}")
    assert path.read_bytes() == b"\n".join(rows)


async def test_an_unknown_event_that_may_be_skipped_is_kept(tmp_path: Path) -> None:
    """M-117: A reader that does not know the type loads the log."""
    session = conversation(1)
    session.append("else/where", {"a": 1}, ignorable=True)
    put(tmp_path, session)

    stored = await JsonlStorage(tmp_path).load_stored("s")

    assert stored is not None
    assert stored.events == tuple(session.events)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@needs_posix
async def test_a_write_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    """M-119: No partial record stays, and the batch goes through when there is room again."""
    session = conversation(1)
    path = path_of(tmp_path, session)
    async with writer(tmp_path) as storage:
        await write(storage, session)
        before = path.read_bytes()
        session.append("user/message", create_user_message("x" * 5000), surface_op="append")
        with file_size_limit(len(before) + 1000), pytest.raises(OSError, match="too large"):
            await write(storage, session, 1)
        assert path.read_bytes() == before
        await write(storage, session, 1)

    assert path.read_bytes().endswith(event_to_json(session.events[1]) + b"\n")


def _remove(path: Path) -> None:
    shutil.rmtree(path.parent)


def _move(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def _replace(path: Path) -> None:
    path.rename(path.with_name("old"))
    path.write_bytes(path.with_name("old").read_bytes())


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


@needs_posix
@pytest.mark.parametrize("act", [_remove, _move, _replace, _shorten])
async def test_a_file_that_somebody_touches_is_not_written_on(
    tmp_path: Path, act: Callable[[Path], None]
) -> None:
    """M-118: The writer notices, takes the session anew, and finds what is there."""
    session = conversation(2)
    async with writer(tmp_path) as storage:
        await write(storage, session)
        act(path_of(tmp_path, session))
        session.append("user/message", create_user_message("later"), surface_op="append")
        with pytest.raises(SessionChangedError, match=r"session\.jsonl was "):
            await write(storage, session, 2)
        await storage.release("s")
        await storage.acquire("s")
        stored = await storage.load_stored("s")
        count = 0 if stored is None else len(stored.events)
        await write(storage, session, count)

    assert path_of(tmp_path, session).read_bytes() == text(session)


async def test_what_the_disk_did_not_keep_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-119: A second sync might succeed although the first one lost the pages."""
    session = conversation(2)
    async with writer(tmp_path) as storage:
        await write(storage, session)
        await storage.sync("s")
        kept = path_of(tmp_path, session).read_bytes()
        session.append("user/message", create_user_message("later"), surface_op="append")
        await write(storage, session, 2)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", _fail)
            with pytest.raises(OSError, match="lost"):
                await storage.sync("s")
        assert path_of(tmp_path, session).read_bytes() == kept
        await write(storage, session, 2)
        await storage.sync("s")

    assert path_of(tmp_path, session).read_bytes() == text(session)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 10_000))
async def test_what_was_synced_survives_a_loss_of_power(
    tmp_path_factory: pytest.TempPathFactory, syncs: list[bool], more: int
) -> None:
    """M-119: Of what came after the last sync any part may be lost, or half of a record."""
    root, session, kept = tmp_path_factory.mktemp("power"), Session("s"), 0
    path = path_of(root, session)
    with pytest.MonkeyPatch.context() as patch:
        sizes = [0]
        patch.setattr(os, "fsync", lambda fd: sizes.extend(_size_of_file(fd)))
        async with writer(root) as storage:
            for number, sync in enumerate(syncs):
                message = create_user_message(f"message {number}")
                session.append("user/message", message, surface_op="append")
                events = session.events[number:]
                await storage.append_batch(
                    session.header, events, materialized=number > 0, durable=sync
                )
                kept = number + 1 if sync else kept
    _cut(path, sizes[-1] + more)
    stored = await JsonlStorage(root).load_stored("s")
    count = 0 if stored is None else len(stored.events)

    assert count >= kept
    assert stored is None or stored.events == session.events[:count]


def _size_of_file(fd: int) -> Iterator[int]:
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode):
        yield status.st_size


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def _fail(fd: int) -> None:
    raise OSError("lost")


async def test_deleting_removes_the_whole_folder(tmp_path: Path) -> None:
    """M-117: With what others have put beside the log."""
    session = conversation()
    async with writer(tmp_path) as storage:
        await write(storage, session)
        folder = path_of(tmp_path, session).parent
        _write_beside(folder)
        await storage.delete("s")

    assert not folder.exists()


def _write_beside(folder: Path) -> None:
    (folder / "spill").mkdir()
    (folder / "spill" / "1.txt").write_text("x")
    (folder / "note").write_text("x")


@pytest.mark.parametrize("bulk", [10, 20_000])
async def test_the_list_reads_the_end_of_a_log_only(tmp_path: Path, bulk: int) -> None:
    """M-117: Where that does not tell the last turn, it says nothing about it."""
    session = conversation(1)
    session.append("turn/start", TurnStart(1))
    session.append("someone/else", {"text": "x" * bulk}, ignorable=True)
    put(tmp_path, session, b'{"torn')

    (snapshot,) = await JsonlStorage(tmp_path).list()

    assert snapshot.last_turn == (LastTurn(1, None) if bulk == 10 else None)
    assert abs(snapshot.updated_at - session.events[-1].time) < 60_000


@pytest.mark.parametrize(
    ("fsync", "after_writes", "after_sync"), [("flush", 0, 1), ("always", 2, 3), ("never", 0, 0)]
)
async def test_the_disk_is_told_as_the_setting_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fsync: Any,
    after_writes: int,
    after_sync: int,
) -> None:
    """M-119: At a flush, after each write, or never; the names of new files count as well."""
    told: list[str] = []

    def record(fd: int) -> None:
        told.append("folder" if os.path.isdir(f"/proc/self/fd/{fd}") else "file")

    monkeypatch.setattr(os, "fsync", record)
    session = conversation(2)
    async with writer(tmp_path, fsync=fsync) as storage:
        await storage.append_batch(session.header, session.events[:1], materialized=False)
        await storage.append_batch(session.header, session.events[1:], materialized=True)
        assert told.count("file") == after_writes
        await storage.sync("s")

    assert told.count("file") == after_sync
    assert ("folder" in told) == (fsync != "never")


async def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """M-118: The message names the holder; readers are not kept out."""
    session = conversation()
    async with writer(tmp_path) as storage:
        await write(storage, session)
        with pytest.raises(SessionLockedError, match=f"process {os.getpid()} on ") as caught:
            await JsonlStorage(tmp_path).acquire("s")
        assert caught.value.session_id == "s"
        assert await JsonlStorage(tmp_path).load_stored("s") is not None

    async with writer(tmp_path) as storage:
        assert await storage.load_stored("s") is not None


HOLD = """
import anyio, sys
from pathlib import Path
from terret_plugin_session_jsonl import JsonlStorage

async def hold():
    await JsonlStorage(Path(sys.argv[1])).acquire("s")
    print("held", flush=True)
    await anyio.sleep_forever()

anyio.run(hold)
"""


@needs_posix
async def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    """B-177: A live holder is named, a dead one is none."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    async with await anyio.open_process(command, stderr=None) as holder:
        assert holder.stdout is not None
        await BufferedByteReceiveStream(holder.stdout).receive_until(b"held", 100)
        with pytest.raises(SessionLockedError, match=f"process {holder.pid} on "):
            await JsonlStorage(tmp_path).acquire("s")
        holder.kill()
    async with writer(tmp_path) as storage:
        assert await storage.load_stored("s") is None


async def test_a_session_in_which_nothing_was_written_leaves_no_folder(tmp_path: Path) -> None:
    """M-117: An empty session is not stored, and not listed."""
    async with writer(tmp_path) as storage:
        assert await storage.load_stored("s") is None

    assert os.listdir(tmp_path) == []
    assert await JsonlStorage(tmp_path).list() == ()


ids = st.text(min_size=1, max_size=300).filter(lambda id: id.isprintable() or "\0" in id)


@given(st.lists(ids, min_size=2, max_size=6, unique=True))
def test_every_id_has_one_folder_below_the_root(names: list[str]) -> None:
    """M-117, E-492: Whatever it looks like, and on file systems that ignore case as well."""
    root = Path("root")
    folders = [
        Path(JsonlStorage(root).locate(Session(name).header)).parent
        for name in names
        if name.encode("utf-8", "replace").decode() == name
    ]

    assert all(folder.parent == root for folder in folders)
    assert len({folder.name.lower() for folder in folders}) == len(folders)
    assert all(len(folder.name) < 200 for folder in folders)


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("main-session-1", "main-session-1"),
        ("../../etc/passwd", "%2f..%2fetc%2fpasswd"),
        ("tenant:dev:coder:1", "tenant%3adev%3acoder%3a1"),
        ("..", ""),
        ("C:\\x", "C%3a%5cx"),
    ],
)
def test_folder_names_stay_readable_and_inside(id: str, name: str) -> None:
    """M-117: No id leads out of the root."""
    folder = Path(JsonlStorage(Path("root")).locate(Session(id).header)).parent

    assert folder.name.partition("~")[0] == (name or folder.name.partition("~")[0])
    assert folder.parent == Path("root")
    assert folder.name not in ("", ".", "..")


def log_of(case: bytes) -> tuple[Session, bytes]:
    """A neutral case as a log: whole records become events, broken lines stay as they are."""
    session, calls = Session("s"), iter(range(1, 9))
    session.append("turn/start", TurnStart(1))
    session.append("step/start", StepStart(1, 1))
    lines, count = [text(session)[:-1]], 2
    for line in case.split(b"\n"):
        try:
            _append(session, json.loads(line), next(calls))
        except ValueError:
            lines.append(line)
        else:
            rows = map(event_to_json, session.events[count:])
            lines.append(b"\n".join(rows))
            count = len(session.events)
    return session, b"\n".join(lines)


def _append(session: Session, record: dict[str, Any], number: int) -> None:
    match record["role"]:
        case "user":
            message = create_user_message(record["content"])
            session.append("user/message", message, surface_op="append")
        case "tool":
            result = create_tool_result_message(record["tool_call_id"], record["content"])
            session.append("tool/result", ToolResult(1, 1, result), surface_op="append")
        case _:
            calls = [
                ToolCallBlock(call["id"], call["name"], json.dumps(call["args"]))
                for call in record.get("tool_calls", ())
            ]
            answer = create_assistant_message(calls or record["content"], "p", "m")
            view = AssistantMessage(1, 1, answer)
            session.append("assistant/message", view, surface_op="append")


async def _messages(root: Path, name: str) -> tuple[Message, ...]:
    session, log = log_of((CASES / f"{name}.jsonl").read_bytes())
    path = path_of(root, session)
    path.parent.mkdir(parents=True)
    path.write_bytes(log)
    stored = await JsonlStorage(root).load_stored("s")
    assert stored is not None
    return derive_messages((*stored.events, *repair_closers(stored.events)))


@needs_cases
@pytest.mark.parametrize(
    ("name", "count"), [("ses-torn-tail", 3), ("ses-torn-tail-blank", 3), ("ses-u2028", 2)]
)
async def test_the_cases_of_torn_and_odd_text_load(tmp_path: Path, name: str, count: int) -> None:
    """B-170, B-171, B-188: Whole records are read; only LF ends one."""
    assert len(await _messages(tmp_path, name)) == count


@needs_cases
async def test_the_case_of_a_corrupt_middle_is_refused(tmp_path: Path) -> None:
    """B-172: Nothing is hidden, nothing is lost: file and line are named."""
    with pytest.raises(SessionCorruptionError, match=r"line 5: .*not JSON"):
        await _messages(tmp_path, "ses-corrupt-middle")


@needs_cases
async def test_the_case_of_a_dangling_call_is_repaired(tmp_path: Path) -> None:
    """B-173: The next request has a result for the call."""
    messages = await _messages(tmp_path, "ses-dangling-call")

    (block,) = messages[-1].content
    assert getattr(block, "tool_call_id", None) == "c1"
    assert "did not run" in getattr(block, "text", "")
