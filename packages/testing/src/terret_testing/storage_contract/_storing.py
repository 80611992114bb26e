from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from terret_sessions import (
    Completed,
    LastTurn,
    Session,
    SessionChangedError,
    SessionEvent,
    SessionFormatUnsupportedError,
    SessionLockedError,
    SessionStorage,
    StoredLog,
    TurnStart,
    repair_closers,
)

from ._sample_log import ODD_TEXT, add_turn, sample_session

IDS = ["a", "A", "a.b", "a/b", "a%2fb", "..", ".", "con", "é", "日本", "a b", "a:b:c", "x" * 300]


class Storing:
    """The part of the suite that speaks to the storage itself."""

    pytestmark = pytest.mark.anyio

    def open_storage(self, place: Path) -> SessionStorage:
        """Returns a storage at a place, as a process would that has just started.

        What one storage wrote is there for the next one that is opened at the same place, also
        while the first is still open.
        """
        raise NotImplementedError

    @asynccontextmanager
    async def storage(self, place: Path, *ids: str) -> AsyncIterator[SessionStorage]:
        """Opens a storage, takes the sessions of these ids for writing, and closes it."""
        storage = self.open_storage(place)
        try:
            for id in ids:
                await storage.acquire(id)
                await storage.load_stored(id)
            yield storage
        finally:
            await storage.close()

    async def test_a_log_comes_back_as_it_was(self, tmp_path: Path) -> None:
        """M-117: Header and events of every kind, in another process too."""
        session = sample_session()
        async with self.storage(tmp_path, session.id) as storage:
            await write(storage, session)
            first = await stored(storage, session.id)
        async with self.storage(tmp_path) as storage:
            second = await stored(storage, session.id)

        for log in (first, second):
            assert log.header == session.header
            assert list(log.events) == list(session.events)
            assert log.torn_marker is None

    async def test_what_is_not_stored_is_none(self, tmp_path: Path) -> None:
        """M-117: An id that was taken but not written is not stored either."""
        async with self.storage(tmp_path, "taken") as storage:
            for id in ("taken", "unknown"):
                assert await storage.load_stored(id) is None
                assert await storage.load_stored_from(id, 0) is None
                assert await storage.read_stored_revision(id) is None
                assert await storage.read_raw(id) is None
            assert await storage.list() == ()

    async def test_batches_follow_each_other(self, tmp_path: Path) -> None:
        """M-117: Of any size, and after the storage was opened again."""
        session = sample_session()
        ends = [1, 2, 30, len(session.events)]
        for start, end in zip([0, *ends], ends, strict=False):
            async with self.storage(tmp_path, session.id) as storage:
                await write(storage, session, start, end)

        async with self.storage(tmp_path) as storage:
            assert list((await stored(storage, session.id)).events) == list(session.events)

    async def test_what_is_stored_already_is_passed_over(self, tmp_path: Path) -> None:
        """M-119: A write is repeated when nobody saw its end; nothing is there twice."""
        session = sample_session()
        async with self.storage(tmp_path, session.id) as storage:
            await write(storage, session, 0, 5)
            await write(storage, session, 0, 5)
            await write(storage, session, 0, 9)
            await write(storage, session, 3)

            assert list((await stored(storage, session.id)).events) == list(session.events)

    async def test_events_that_do_not_follow_are_refused(self, tmp_path: Path) -> None:
        """M-117, S-010: A log never has a gap."""
        session = sample_session()
        async with self.storage(tmp_path, session.id) as storage:
            await write(storage, session, 0, 5)
            with pytest.raises(SessionChangedError):
                await write(storage, session, 6, 9)

            assert list((await stored(storage, session.id)).events) == list(session.events[:5])

    async def test_a_suffix_begins_with_its_seq(self, tmp_path: Path) -> None:
        """M-117: Also in the middle of a run of chunks, and behind the end."""
        session = sample_session()
        async with self.storage(tmp_path, session.id) as storage:
            await write(storage, session)
            for seq in (0, 1, 10, 15, len(session.events) - 1, len(session.events)):
                suffix = await storage.load_stored_from(session.id, seq)
                assert suffix is not None
                assert list(suffix) == list(session.events[seq:])

    async def test_the_revision_changes_with_every_append(self, tmp_path: Path) -> None:
        """M-117: It is the same for the list, the log and the session alone."""
        session = sample_session()
        seen = set()
        async with self.storage(tmp_path, session.id) as storage:
            for start in range(0, 20, 5):
                await write(storage, session, start, start + 5)
                (snapshot,) = await storage.list()
                assert await storage.read_stored_revision(session.id) == snapshot.revision
                assert (await stored(storage, session.id)).revision == snapshot.revision
                seen.add(snapshot.revision)

        assert len(seen) == 4

    async def test_the_list_is_in_order_of_creation(self, tmp_path: Path) -> None:
        """M-117: With the time of the last event, and what the last turn came to."""
        sessions = [Session(id) for id in ("c", "a", "b")]
        sessions.sort(key=lambda each: (each.header.created_at, each.id))
        for session, end in zip(sessions, (True, False, True), strict=True):
            add_turn(session, end=end)
        async with self.storage(tmp_path, *"abc") as storage:
            for session in reversed(sessions):
                await write(storage, session)
            listed = await storage.list()

        assert [each.header for each in listed] == [session.header for session in sessions]
        assert [each.updated_at for each in listed] == [s.events[-1].time for s in sessions]
        ends = [LastTurn(1, Completed()), LastTurn(1, None), LastTurn(1, Completed())]
        assert [each.last_turn for each in listed] == ends

    async def test_every_id_is_a_session_of_its_own(self, tmp_path: Path) -> None:
        """M-117: Whatever it looks like to a file system or a query."""
        sessions = {id: Session(id) for id in IDS}
        async with self.storage(tmp_path, *IDS) as storage:
            for id, session in sessions.items():
                add_turn(session, id)
                await write(storage, session)
        async with self.storage(tmp_path) as storage:
            assert {each.header.id for each in await storage.list()} == set(IDS)
            for id, session in sessions.items():
                assert list((await stored(storage, id)).events) == list(session.events)

    async def test_one_writer_at_a_time(self, tmp_path: Path) -> None:
        """M-118, B-177: The message names the holder; reading and other sessions stay free."""
        session = sample_session("s")
        async with self.storage(tmp_path, "s") as first, self.storage(tmp_path, "t") as second:
            await write(first, session)
            with pytest.raises(SessionLockedError, match=r"'s' is being written by \S+") as caught:
                await second.acquire("s")
            assert caught.value.session_id == "s"
            assert caught.value.holder
            assert list((await stored(second, "s")).events) == list(session.events)
            await first.release("s")
            await first.release("s")
            await second.acquire("s")
            with pytest.raises(SessionLockedError):
                await first.acquire("s")

    async def test_a_session_can_be_taken_while_another_gives_it_back(self, tmp_path: Path) -> None:
        """M-118: Whoever comes in between gets it, or is told that somebody has it."""
        taken = 0

        async def take() -> None:
            nonlocal taken
            async with self.storage(tmp_path) as storage:
                for _ in range(30):
                    with suppress(SessionLockedError):
                        await storage.acquire("s")
                        taken += 1
                        await storage.release("s")

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(take)

        assert taken

    async def test_closing_gives_everything_back(self, tmp_path: Path) -> None:
        """M-118: What was taken can be taken by another."""
        async with self.storage(tmp_path, "s", "t"):
            pass
        async with self.storage(tmp_path, "s", "t") as storage:
            await write(storage, sample_session("s"))

    async def test_closers_are_kept(self, tmp_path: Path) -> None:
        """M-117: A repair adds them behind the log, and changes nothing else."""
        session = Session("s")
        add_turn(session, end=False)
        closers = repair_closers(session.events)
        async with self.storage(tmp_path, "s") as storage:
            await write(storage, session)
        async with self.storage(tmp_path, "s") as storage:
            log = await stored(storage, "s")
            await storage.commit_repair(log.header, log.torn_marker, closers)
            assert list((await stored(storage, "s")).events) == [*session.events, *closers]
            log = await stored(storage, "s")
            await storage.commit_repair(log.header, log.torn_marker, ())

            assert list((await stored(storage, "s")).events) == [*session.events, *closers]

    async def test_a_deleted_session_is_gone(self, tmp_path: Path) -> None:
        """M-117: The others stay, and its id can be used again."""
        async with self.storage(tmp_path, "s", "t") as storage:
            for id in ("s", "t"):
                await write(storage, sample_session(id))
            await storage.delete("s")
            assert await storage.load_stored("s") is None
            assert [each.header.id for each in await storage.list()] == ["t"]
        again = Session("s")
        add_turn(again)
        async with self.storage(tmp_path, "s") as storage:
            await write(storage, again)
            assert list((await stored(storage, "s")).events) == list(again.events)

    async def test_a_reader_sees_whole_events_only(self, tmp_path: Path) -> None:
        """M-117: While somebody writes, it gets the beginning of the log, longer each time."""
        session = Session("s")
        lengths: list[int] = []

        async def write_all(storage: SessionStorage) -> None:
            for number in range(30):
                add_turn(session, f"{number} {ODD_TEXT}")
                await write(storage, session, len(session.events) - 3)

        async with (
            self.storage(tmp_path, "s") as writer,
            self.storage(tmp_path) as reader,
            anyio.create_task_group() as group,
        ):
            group.start_soon(write_all, writer)
            while len(lengths) < 30:
                log = await reader.load_stored("s")
                events = () if log is None else tuple(log.events)
                assert events == tuple(session.events[: len(events)])
                lengths.append(len(events))

        assert lengths == sorted(lengths)

    async def test_a_cancelled_write_is_whole_or_not_there(self, tmp_path: Path) -> None:
        """M-119: The next one brings the log into order."""
        session = sample_session("s")
        async with self.storage(tmp_path, "s") as storage:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await write(storage, session, 0, 40)
            log = await storage.load_stored("s")
            assert log is None or len(log.events) == 40
            await write(storage, session)

            assert list((await stored(storage, "s")).events) == list(session.events)

    async def test_a_value_that_json_cannot_carry_costs_its_own_row(self, tmp_path: Path) -> None:
        """S-108: The batch is written, and can be read."""
        session = Session("s")
        session.append("turn/start", TurnStart(1))
        spoiled = {"text": "\ud800"}
        events = [
            session.events[0],
            SessionEvent("someone/else", 1, 1, spoiled, ignorable=True),
            SessionEvent("turn/start", 2, 2, TurnStart(2)),
        ]
        async with self.storage(tmp_path, "s") as storage:
            await storage.append_batch(session.header, events, materialized=False)
            log = await stored(storage, "s")

        assert [event.data for event in log.events] == [
            {"turn": 1},
            {"text": "\ufffd"},
            {"turn": 2},
        ]

    async def test_an_unknown_type_is_refused_unless_it_may_be_skipped(
        self, tmp_path: Path
    ) -> None:
        """M-117: The message names artifact, seq and type; nothing is changed, nobody hidden."""
        session = Session("s")
        strange = SessionEvent("nobody/knows", 0, 1, {"a": 1})
        async with self.storage(tmp_path, "s", "t") as storage:
            await write(storage, sample_session("t"))
            await storage.append_batch(session.header, [strange], materialized=False)
            revision = await storage.read_stored_revision("s")
            with pytest.raises(SessionFormatUnsupportedError, match="nobody/knows") as caught:
                await storage.load_stored("s")

            assert caught.value.artifact
            assert await storage.read_stored_revision("s") == revision
            assert "t" in [snapshot.header.id for snapshot in await storage.list()]

    async def test_the_raw_text_has_every_row(self, tmp_path: Path) -> None:
        """M-117: Where there is such a text, and it can be located."""
        session = sample_session("s")
        async with self.storage(tmp_path, "s") as storage:
            await write(storage, session)
            raw = await storage.read_raw("s")
            if not storage.supports_raw:
                assert raw is None
            else:
                assert raw is not None
                assert raw.count(b'"seq":') >= len(session.events)
                assert storage.locate(session.header)

    async def test_what_was_synced_is_there_for_others(self, tmp_path: Path) -> None:
        """M-119: Syncing twice, or with nothing new, does no harm."""
        session = sample_session("s")
        async with self.storage(tmp_path, "s") as storage, self.storage(tmp_path) as reader:
            await write(storage, session)
            await storage.sync("s")
            await storage.sync("s")

            assert list((await stored(reader, "s")).events) == list(session.events)

    async def test_a_log_that_is_gone_is_not_written_on(self, tmp_path: Path) -> None:
        """M-118: A write behind what is not there any more is refused."""
        session = sample_session("s")
        async with self.storage(tmp_path, "s") as storage:
            await write(storage, session, 0, 5)
            await storage.delete("s")
            with pytest.raises(SessionChangedError):
                await write(storage, session, 5)


async def write(
    storage: SessionStorage, session: Session, start: int = 0, end: int | None = None
) -> None:
    """Writes events of a session, as the coordinator does."""
    events: Sequence[SessionEvent] = session.events[start:end]
    await storage.append_batch(session.header, events, materialized=start > 0)


async def stored(storage: SessionStorage, id: str) -> StoredLog:
    """Loads a session that must be there."""
    log = await storage.load_stored(id)
    assert log is not None
    return log
