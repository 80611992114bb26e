from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from terret_context import Container, Context, Fiber, plugin
from terret_llm import create_user_message
from terret_sessions import (
    CREATED,
    SESSION_PERSISTENCE,
    Completed,
    EndSeed,
    Interrupted,
    InvalidEventError,
    Session,
    SessionChangedError,
    SessionConflictError,
    SessionCoordinator,
    SessionEvent,
    SessionExistsError,
    SessionHeader,
    SessionLockedError,
    SessionNotFoundError,
    SessionPersistence,
    Sessions,
    SessionSnapshot,
    SessionStateError,
    SessionStorage,
    StoredLog,
    TurnEnd,
    TurnStart,
    event_from_json,
    event_row,
)


class MemoryStorage(SessionStorage):
    """Rows in memory, with a gate for writes, failures to order and a record of calls."""

    def __init__(self) -> None:
        self.headers: dict[str, SessionHeader] = {}
        self.rows: dict[str, list[bytes]] = {}
        self.batches: list[tuple[str, int]] = []
        self.calls: list[str] = []
        self.locked: set[str] = set()
        self.torn: set[str] = set()
        self.failures: list[Exception] = []
        self.sync_failures: list[Exception] = []
        self.open = anyio.Event()
        self.open.set()
        self.tried = anyio.Event()
        self.wrote = anyio.Event()

    async def acquire(self, id: str) -> None:
        if id in self.locked:
            raise SessionLockedError(id, "somebody")
        self.calls.append(f"acquire {id}")

    async def release(self, id: str) -> None:
        self.calls.append(f"release {id}")

    async def load_stored(self, id: str) -> StoredLog | None:
        if id not in self.rows:
            return None
        events = tuple(event_from_json(row) for row in self.rows[id])
        marker = "cut" if id in self.torn else None
        return StoredLog(self.headers[id], events, str(len(events)), marker)

    async def read_stored_revision(self, id: str) -> str | None:
        return str(len(self.rows[id])) if id in self.rows else None

    async def append_batch(
        self,
        header: SessionHeader,
        events: Sequence[SessionEvent],
        *,
        materialized: bool,
        durable: bool = False,
    ) -> None:
        self.tried.set()
        self.tried = anyio.Event()
        await self.open.wait()
        if self.failures:
            raise self.failures.pop(0)
        assert materialized == (header.id in self.rows)
        self.headers[header.id] = header
        stored = self.rows.setdefault(header.id, [])
        rows = [event_row(event) for event in events if event.seq >= len(stored)]
        stored += rows
        self.batches.append((header.id, len(rows)))
        if durable:
            await self.sync(header.id)
        self.wrote.set()
        self.wrote = anyio.Event()

    async def commit_repair(
        self, header: SessionHeader, torn_marker: object | None, closers: Sequence[SessionEvent]
    ) -> None:
        self.calls.append(f"repair {header.id}")
        if torn_marker is not None:
            self.torn.discard(header.id)
        self.rows[header.id] += [event_row(event) for event in closers]

    async def sync(self, id: str) -> None:
        self.calls.append(f"sync {id}")
        if self.sync_failures:
            raise self.sync_failures.pop(0)

    async def list(self) -> tuple[SessionSnapshot, ...]:
        return tuple(
            SessionSnapshot(self.headers[id], str(len(rows)), event_from_json(rows[-1]).time)
            for id, rows in self.rows.items()
        )

    async def delete(self, id: str) -> None:
        self.calls.append(f"delete {id}")
        del self.rows[id]

    async def close(self) -> None:
        self.calls.append("close")


class Kept:
    """A container whose sessions are kept, and what a test needs of it."""

    def __init__(self, root: Container, storage: MemoryStorage, fiber: Fiber, ctx: Context) -> None:
        self.root = root
        self.storage = storage
        self.fiber = fiber
        self.ctx = ctx
        self.sessions = ctx[Sessions]

    @property
    def persistence(self) -> SessionPersistence:
        offered = self.ctx.get(SESSION_PERSISTENCE)
        assert offered is not None
        return offered

    def seqs(self, id: str) -> list[int]:
        """The seqs that are stored."""
        return [event_from_json(row).seq for row in self.storage.rows.get(id, [])]

    async def owner(self) -> Context:
        """The context of a plugin of its own."""
        fiber = self.root.plugin(plugin(inject=(Sessions,), name="owner")(_nothing))
        await fiber.ready()
        ctx: Context = fiber.ctx
        return ctx


def backend(storage: SessionStorage, window: float) -> Any:
    @plugin(inject=(Sessions,), provides=(SESSION_PERSISTENCE,), name="memory")
    async def memory(ctx: Context) -> AsyncIterator[None]:
        async with SessionCoordinator(ctx, storage, window=window) as coordinator:
            ctx.provide(SESSION_PERSISTENCE, coordinator)
            yield

    return memory


@asynccontextmanager
async def kept(storage: MemoryStorage | None = None, window: float = 3600) -> AsyncIterator[Kept]:
    storage = MemoryStorage() if storage is None else storage
    async with Container() as root:
        root.plugin(Sessions)
        fiber = root.plugin(backend(storage, window))
        host = root.plugin(plugin(inject=(Sessions,), name="host")(_nothing))
        await root.settle()
        yield Kept(root, storage, fiber, host.ctx)


def _nothing(ctx: Context) -> None:
    return None


def turn(session: Session, *, end: bool = True) -> None:
    number = session.last_turn + 1
    session.append("turn/start", TurnStart(number))
    session.append("user/message", create_user_message("hi"), surface_op="append")
    if end:
        session.append("turn/end", TurnEnd(number, Completed()))


async def publish(at: Kept, id: str) -> Session:
    """Resume a stored session, as a factory does."""
    async with at.persistence.prepare(id) as session:
        at.sessions.enter(session)
        at.sessions.announce(session)
    return session


async def test_a_session_comes_back_as_it_was() -> None:
    """M-117: Header, events and messages survive; the resumed log goes on behind a marker."""
    async with kept() as before:
        session = before.sessions.create("s", meta={"cwd": "/x"})
        turn(session)
    async with kept(before.storage) as after:
        resumed = await publish(after, "s")
        turn(resumed)

        assert resumed.header == session.header
        assert list(resumed.events[:3]) == list(session.events)
        assert isinstance(resumed.events[3].view, EndSeed)
        assert resumed.last_turn == 2
    assert before.seqs("s") == [0, 1, 2, 3, 4, 5, 6]


async def test_an_empty_session_is_not_stored() -> None:
    """M-117: It is listed with its first event, and snapshots change with every append."""
    async with kept() as at:
        session = at.sessions.create("s")
        await at.sessions.flush(session)
        assert await at.persistence.list() == ()
        revisions = []
        for _ in range(2):
            turn(session)
            await at.sessions.flush(session)
            (snapshot,) = await at.persistence.list_snapshots()
            revisions.append(snapshot.revision)

        assert await at.persistence.list() == (session.header,)
        assert len(set(revisions)) == 2


async def test_events_wait_for_the_window_and_go_together() -> None:
    """M-119: The first event opens it, the others join; nothing is written before its end."""
    async with kept(window=0) as at:
        wrote = at.storage.wrote
        session = at.sessions.create("s")
        turn(session)
        assert at.seqs("s") == []
        await wrote.wait()

        assert at.storage.batches == [("s", 3)]


async def test_events_that_come_during_a_write_form_the_next_batch() -> None:
    """M-119: One write at a time, in order, each with a window of its own."""
    async with kept(window=0) as at:
        at.storage.open = anyio.Event()
        session = at.sessions.create("s")
        turn(session)
        await at.storage.tried.wait()
        turn(session)
        at.storage.open.set()
        while len(at.storage.batches) < 2:
            await at.storage.wrote.wait()

        assert at.storage.batches == [("s", 3), ("s", 3)]
        assert at.seqs("s") == list(range(6))


async def test_a_flush_ends_the_wait_and_takes_what_arrives_meanwhile() -> None:
    """M-119: It is a barrier: afterwards everything is stored and synced."""
    async with kept() as at:
        at.storage.open = anyio.Event()
        session = at.sessions.create("s")
        turn(session)
        async with anyio.create_task_group() as group:
            group.start_soon(at.sessions.flush, session)
            await at.storage.tried.wait()
            turn(session)
            at.storage.open.set()

        assert at.seqs("s") == list(range(6))
        assert at.storage.calls[-1] == "sync s"


async def test_a_failed_write_is_kept_and_taken_along_by_the_next() -> None:
    """M-119: Logged once, in order, and retried in the window of the next event."""
    async with kept(window=0) as at:
        reports: list[str] = []
        at.ctx.on("internal/error", lambda failure: reports.append(str(failure.error)))
        at.storage.failures = [OSError("disk full"), OSError("still full")]
        session = at.sessions.create("s")
        for number in (1, 2):
            tried = at.storage.tried
            session.append("turn/start", TurnStart(number))
            await tried.wait()
            await anyio.wait_all_tasks_blocked()
        wrote = at.storage.wrote
        session.append("turn/start", TurnStart(3))
        await wrote.wait()

        assert reports == ["disk full"]
        assert at.storage.batches == [("s", 3)]


async def test_a_flush_retries_at_once_and_raises_what_fails() -> None:
    """M-119: The failure reaches the caller, and the batch stays."""
    async with kept() as at:
        at.storage.failures = [OSError("disk full")]
        session = at.sessions.create("s")
        turn(session)
        with pytest.raises(OSError, match="disk full"):
            await at.sessions.flush(session)
        assert at.seqs("s") == []
        assert await at.sessions.flush(session)

        assert at.seqs("s") == [0, 1, 2]


async def test_a_cancelled_flush_cancels_nobody_else() -> None:
    """M-118: The next one finds everything in order."""
    async with kept() as at:
        at.storage.open = anyio.Event()
        session = at.sessions.create("s")
        turn(session)
        async with anyio.create_task_group() as group:
            group.start_soon(at.sessions.flush, session)
            await at.storage.tried.wait()
            group.cancel_scope.cancel()
        at.storage.open.set()
        await at.sessions.flush(session)

        assert at.seqs("s") == [0, 1, 2]


async def test_a_session_that_ends_is_stored_and_given_back() -> None:
    """M-118: Its queue is drained and retired, and the id is free for a resume."""
    async with kept() as at:
        owner = await at.owner()
        turn(owner[Sessions].create("s"))
        await owner.fiber.dispose(check=True)
        resumed = await publish(at, "s")

        assert at.seqs("s") == [0, 1, 2]
        assert resumed.first_live_seq == 3
        assert at.storage.calls == ["acquire s", "sync s", "release s", "acquire s"]


async def test_a_refused_session_leaves_nothing() -> None:
    """M-118: The veto of a later listener also takes back what would have been stored."""
    async with kept(window=0) as at:

        def refuse(session: Session) -> None:
            raise PermissionError

        veto = at.ctx.on(CREATED, refuse)
        with pytest.raises(PermissionError):
            at.sessions.create("s", seed=())
        veto.close()
        await anyio.wait_all_tasks_blocked()

        assert at.storage.rows == {}
        session = at.sessions.create("s")
        turn(session)
        await at.sessions.flush(session)
        assert at.seqs("s") == [0, 1, 2]


async def test_leaving_writes_everything_and_closes_the_storage() -> None:
    """M-118: Intake stops, all is flushed, then the storage is closed."""
    async with kept() as at:
        session = at.sessions.create("s")
        turn(session)
        await at.fiber.dispose(check=True)

        assert at.seqs("s") == [0, 1, 2]
        assert at.storage.calls == ["acquire s", "sync s", "release s", "close"]
        assert await at.sessions.flush(session) is False


async def test_a_failure_while_leaving_is_reported_and_the_storage_closed() -> None:
    """M-118: One session that cannot be stored does not keep the others back."""
    async with kept() as at:
        for id in ("a", "b"):
            turn(at.sessions.create(id))
        at.storage.failures = [OSError("disk full")]
        with pytest.raises(ExceptionGroup) as caught:
            await at.fiber.dispose(check=True)

        assert [str(error) for error in caught.value.exceptions] == ["disk full"]
        assert (at.seqs("a"), at.seqs("b")) == ([], [0, 1, 2])
        assert at.storage.calls[-1] == "close"


async def test_a_backend_that_comes_late_adopts_live_sessions() -> None:
    """M-118: It compares what is stored and writes the rest."""
    storage = MemoryStorage()
    async with kept(storage) as at:
        session = at.sessions.create("s")
        turn(session)
        await at.fiber.dispose(check=True)
        turn(session)
        fiber = at.root.plugin(backend(storage, 3600))
        await fiber.ready()
        await at.sessions.flush(session)

        assert storage.batches == [("s", 3), ("s", 3)]


async def test_a_live_log_never_overwrites_another_one() -> None:
    """M-118: If the stored log is not its beginning, storing is refused, again and again."""
    async with kept() as before:
        turn(before.sessions.create("s"))
    async with kept(before.storage) as at:
        session = at.sessions.create("s")
        turn(session)
        for _ in range(2):
            # By its header, or by its events where both were created in one millisecond.
            with pytest.raises(SessionConflictError, match=r"another session|not the beginning"):
                await at.sessions.flush(session)
        with pytest.raises(ExceptionGroup, match="memory"):  # something is lost
            await at.fiber.dispose(check=True)

        assert before.seqs("s") == [0, 1, 2]


async def test_a_crashed_turn_is_closed_durably() -> None:
    """M-117: Load repairs once; what was flushed is kept."""
    async with kept() as before:
        turn(before.sessions.create("s"), end=False)
    async with kept(before.storage) as at:
        seen = await at.persistence.inspect("s")
        assert before.seqs("s") == [0, 1]
        log = await at.persistence.load("s")
        again = await at.persistence.load("s")

    assert log.events[-1].view == TurnEnd(1, Interrupted())
    assert seen == log == again
    assert before.seqs("s") == [0, 1, 2]
    assert at.storage.calls.count("repair s") == 1


async def test_a_live_session_is_loaded_after_a_flush_and_not_within_a_turn() -> None:
    """M-117: Nobody repairs a turn that runs."""
    async with kept() as at:
        session = at.sessions.create("s")
        turn(session)
        log = await at.persistence.load("s")
        assert (log.header, log.events) == (session.header, tuple(session.events))
        assert at.seqs("s") == [0, 1, 2]
        turn(session, end=False)
        with pytest.raises(SessionStateError, match="turn 2 is open"):
            await at.persistence.load("s")

        assert (await at.persistence.inspect("s")).events[-1].view == TurnEnd(2, Interrupted())
        assert session.open_turn == 2


async def test_what_is_not_stored_is_not_found() -> None:
    """M-117: Every way to read says so."""
    async with kept() as at:
        reads: list[Callable[[], Any]] = [
            lambda: at.persistence.load("s"),
            lambda: at.persistence.inspect("s"),
            lambda: at.persistence.read_from("s", 0),
            lambda: at.persistence.read_raw("s"),
            lambda: at.persistence.append("s", []),
            lambda: at.persistence.delete("s"),
            lambda: publish(at, "s"),
        ]
        for read in reads:
            with pytest.raises(SessionNotFoundError):
                await read()
        assert at.storage.calls.count("acquire s") == at.storage.calls.count("release s")


async def test_a_suffix_can_be_read_stored_or_live() -> None:
    """M-117: For consumers that remember a seq."""
    async with kept() as before:
        session = before.sessions.create("s")
        turn(session)
        assert await before.persistence.read_from("s", 1) == tuple(session.events[1:])
    async with kept(before.storage) as at:
        assert await at.persistence.read_from("s", 2) == tuple(session.events[2:])


async def test_events_can_be_added_without_a_live_session() -> None:
    """M-117: After `create`; the first seq is the next one, and nothing waits."""
    async with kept() as at:
        source = Session("s")
        turn(source)
        events = tuple(source.events)
        await at.persistence.create(source.header)
        assert await at.persistence.list() == ()
        await at.persistence.append("s", events[:2])
        with pytest.raises(InvalidEventError, match="seq 2 is next"):
            await at.persistence.append("s", events[1:])
        await at.persistence.append("s", events[2:])

        assert at.seqs("s") == [0, 1, 2]
        with pytest.raises(SessionConflictError):
            await at.persistence.create(source.header)


async def test_resuming_a_live_session_is_refused() -> None:
    """M-118: An id is live once, and a direct append is no way around it."""
    async with kept() as at:
        session = at.sessions.create("s")
        turn(session)
        with pytest.raises(SessionExistsError):
            await publish(at, "s")
        with pytest.raises(SessionExistsError):
            await at.persistence.append("s", [])
        with pytest.raises(SessionExistsError):
            await at.persistence.create(session.header)


async def test_a_second_resume_waits_for_the_first() -> None:
    """M-118: Either it finds the session live, or it may have it."""
    async with kept() as before:
        turn(before.sessions.create("s"))
    async with kept(before.storage) as at:
        async with (
            anyio.create_task_group() as group,
            at.persistence.prepare("s") as session,
        ):
            group.start_soon(publish, at, "s")
            await anyio.wait_all_tasks_blocked()
            assert at.sessions.get("s") is None
            assert not session.live

        resumed = at.sessions.get("s")
        assert resumed is not None
        assert resumed is not session


async def test_a_resume_that_is_given_up_gives_the_session_back() -> None:
    """M-118: Also when it is cancelled."""
    async with kept() as before:
        turn(before.sessions.create("s"))
    async with kept(before.storage) as at:
        with anyio.CancelScope() as scope:
            async with at.persistence.prepare("s"):
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        assert at.storage.calls[-1] == "release s"
        assert (await publish(at, "s")).live


async def test_a_session_that_another_process_writes_is_refused() -> None:
    """M-118: The message says who it is; the live one is not stored over it."""
    async with kept() as at:
        at.storage.locked.add("s")
        session = at.sessions.create("s")
        turn(session)
        with pytest.raises(SessionLockedError, match="somebody"):
            await at.sessions.flush(session)
        at.storage.locked.clear()
        await at.sessions.flush(session)

        assert at.seqs("s") == [0, 1, 2]


async def test_a_torn_tail_is_cut_once_by_who_writes() -> None:
    """M-120: A reader leaves it, a load cuts it."""
    async with kept() as before:
        turn(before.sessions.create("s"))
    before.storage.torn.add("s")
    async with kept(before.storage) as at:
        await at.persistence.inspect("s")
        assert "s" in before.storage.torn
        await at.persistence.load("s")

        assert "s" not in before.storage.torn


async def test_a_creation_that_fails_later_leaves_nothing() -> None:
    """M-118: The session was announced, then somebody else refused what it was for."""
    async with kept(window=0) as at:
        session = at.sessions.prepare("s", seed=())
        effect = at.sessions.enter(session)
        at.sessions.announce(session)
        at.sessions.refuse(session)
        effect.close()
        await anyio.wait_all_tasks_blocked()

        assert at.storage.rows == {}
        assert (await at.persistence.list()) == ()


async def test_what_somebody_removed_is_written_again() -> None:
    """M-118: The storage noticed; the live log has everything."""
    async with kept() as at:
        session = at.sessions.create("s")
        turn(session)
        await at.sessions.flush(session)
        at.storage.rows.clear()
        at.storage.failures = [SessionChangedError("s", "it was removed")]
        turn(session)
        await at.sessions.flush(session)

        assert at.seqs("s") == list(range(6))
        assert at.storage.calls == ["acquire s", "sync s", "release s", "acquire s", "sync s"]


@pytest.mark.parametrize("window", [0, 3600])
async def test_a_failed_sync_is_no_promise(window: float) -> None:
    """M-119: With the write or after it: the next flush looks at what is stored, and syncs."""
    async with kept(window=window) as at:
        wrote = at.storage.wrote
        session = at.sessions.create("s")
        turn(session)
        if not window:
            await wrote.wait()
        at.storage.sync_failures = [OSError("the disk is gone")]
        with pytest.raises(OSError, match="the disk is gone"):
            await at.sessions.flush(session)
        del at.storage.rows["s"][1:]  # the disk had the first event only
        await at.sessions.flush(session)

        assert at.seqs("s") == [0, 1, 2]
        assert at.storage.calls[-1] == "sync s"


async def test_a_flush_with_nothing_new_does_nothing() -> None:
    """M-119: What was synced once is not synced again."""
    async with kept() as at:
        session = at.sessions.create("s")
        turn(session)
        for _ in range(3):
            await at.sessions.flush(session)

        assert at.storage.calls.count("sync s") == 1


async def test_a_stored_session_can_be_deleted() -> None:
    """M-117: Under its lock, and given back afterwards; a live one cannot."""
    async with kept() as before:
        turn(before.sessions.create("s"))
    async with kept(before.storage) as at:
        at.storage.calls.clear()
        await at.persistence.delete("s")
        assert at.storage.calls == ["acquire s", "delete s", "release s"]
        with pytest.raises(SessionNotFoundError):
            await at.persistence.delete("s")
        at.sessions.create("s")
        with pytest.raises(SessionStateError, match="live"):
            await at.persistence.delete("s")


async def test_an_id_can_be_used_again_while_its_last_session_is_being_stored() -> None:
    """M-118: One queue per id: the successor waits, and finds that the log is another one."""
    async with kept() as at:
        at.storage.open = anyio.Event()
        owner = await at.owner()
        turn(owner[Sessions].create("s"))
        tried = at.storage.tried
        await owner.fiber.dispose(check=True)
        await tried.wait()
        session = at.sessions.create("s")
        turn(session)
        at.storage.open.set()
        with pytest.raises(SessionConflictError):
            await at.sessions.flush(session)
        with pytest.raises(ExceptionGroup, match="memory"):
            await at.fiber.dispose(check=True)

        assert at.seqs("s") == [0, 1, 2]
