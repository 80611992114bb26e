from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from terret_context import Container, Context, plugin
from terret_sessions import (
    SESSION_PERSISTENCE,
    Interrupted,
    Session,
    SessionConflictError,
    SessionCoordinator,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    SessionPersistence,
    Sessions,
    SessionStateError,
    SessionStorage,
    TurnEnd,
    log_invariants,
)

from ._sample_log import add_turn, sample_session
from ._storing import Storing

NEVER = 3600.0


class KeptSessions:
    """The sessions of a container in which they are kept."""

    def __init__(self, ctx: Context, storage: SessionStorage) -> None:
        self.sessions = ctx[Sessions]
        self.storage = storage
        self._ctx = ctx

    @property
    def persistence(self) -> SessionPersistence:
        offered = self._ctx.get(SESSION_PERSISTENCE)
        assert offered is not None
        return offered

    async def resume(self, id: str) -> Session:
        """Publishes a stored session, as an agent does."""
        async with self.persistence.prepare(id) as session:
            self.sessions.enter(session)
            self.sessions.announce(session)
        return session


class Keeping(Storing):
    """The part of the suite in which a coordinator keeps sessions in the storage."""

    @asynccontextmanager
    async def kept(
        self, place: Path, *, window: float = NEVER, lease_wait: float = 0
    ) -> AsyncIterator[KeptSessions]:
        """A container whose sessions are kept at `place`, until the block ends in order."""
        storage = self.open_storage(place)
        async with Container() as root:
            root.plugin(Sessions)
            root.plugin(log_invariants)
            root.plugin(_backend(storage, window, lease_wait))
            host = root.plugin(_host)
            await root.settle()
            yield KeptSessions(host.ctx, storage)

    async def test_a_conversation_goes_on_in_the_next_process(self, tmp_path: Path) -> None:
        """M-117: Everything that was appended is there, also what was never flushed."""
        async with self.kept(tmp_path) as first:
            session = first.sessions.create("s", meta={"cwd": "/project"})
            add_turn(session, "one")
        async with self.kept(tmp_path) as second:
            resumed = await second.resume("s")
            add_turn(resumed, "two")
            assert resumed.header == session.header
            assert list(resumed.events[:3]) == list(session.events)
        async with self.kept(tmp_path) as third:
            log = await third.persistence.load("s")

        messages = Session(seed=log.events).derive_messages()
        assert [message.text for message in messages] == ["one", "two"]

    async def test_a_flush_is_a_promise(self, tmp_path: Path) -> None:
        """M-119: When it returns, another process finds all of it."""
        async with self.kept(tmp_path) as writer, self.kept(tmp_path) as reader:
            session = writer.sessions.create("s", seed=sample_session().events)
            assert await reader.persistence.list() == ()
            assert await writer.sessions.flush(session)
            log = await reader.persistence.inspect("s")

            assert list(log.events) == list(session.events)
            assert await reader.persistence.list() == (session.header,)

    async def test_the_window_writes_without_a_flush(self, tmp_path: Path) -> None:
        """M-119: An event waits for it, and for nothing else."""
        async with self.kept(tmp_path, window=0) as at, self.kept(tmp_path) as reader:
            session = at.sessions.create("s")
            add_turn(session)
            with anyio.fail_after(10):
                while not await reader.persistence.list():  # noqa: ASYNC110 - as another process
                    await anyio.sleep(0.001)

            assert await reader.persistence.read_from("s", 0) == tuple(session.events)

    async def test_an_empty_session_is_not_listed(self, tmp_path: Path) -> None:
        """M-117: It was created and ended, and nothing was said."""
        async with self.kept(tmp_path) as at:
            await at.sessions.flush(at.sessions.create("s"))
            assert await at.persistence.list() == ()
        async with self.kept(tmp_path) as at:
            with pytest.raises(SessionNotFoundError):
                await at.resume("s")

    async def test_a_second_writer_is_told_who_has_the_session(self, tmp_path: Path) -> None:
        """M-118: It may read it, and write others."""
        async with self.kept(tmp_path) as first, self.kept(tmp_path) as second:
            session = first.sessions.create("s")
            add_turn(session)
            await first.sessions.flush(session)
            with pytest.raises(SessionLockedError):
                await second.resume("s")
            with pytest.raises(SessionLockedError):
                await second.persistence.delete("s")
            assert (await second.persistence.inspect("s")).events == session.events
            other = second.sessions.create("t")
            add_turn(other)
            await second.sessions.flush(other)

            assert {header.id for header in await first.persistence.list()} == {"s", "t"}

    async def test_a_resume_waits_for_who_has_the_session(self, tmp_path: Path) -> None:
        """M-118, E-257: For a while; then it goes on where the other one stopped."""
        resumed: list[Session] = []

        async def resume(at: KeptSessions) -> None:
            resumed.append(await at.resume("s"))

        async with (
            self.kept(tmp_path, lease_wait=60) as second,
            anyio.create_task_group() as group,
            self.kept(tmp_path) as first,
        ):
            add_turn(session := first.sessions.create("s"), "one")
            await first.sessions.flush(session)
            group.start_soon(resume, second)
            await anyio.wait_all_tasks_blocked()
            add_turn(session, "two")
            assert not resumed

        assert list(resumed[0].events[:6]) == list(session.events)

    async def test_of_two_who_begin_a_session_one_comes_first(self, tmp_path: Path) -> None:
        """E-257: The other is told, and goes on with what the first one stored."""
        async with self.kept(tmp_path) as first, self.kept(tmp_path) as second:
            async with first.persistence.claim("s"):
                with pytest.raises(SessionLockedError):
                    async with second.persistence.claim("s"):
                        pytest.fail("two have the session")
                add_turn(session := first.sessions.create("s"), "one")
            with pytest.raises(SessionLockedError):
                await second.resume("s")
            await first.sessions.flush(session)
        async with self.kept(tmp_path) as third:
            with pytest.raises(SessionConflictError, match="a session is stored under its id"):
                async with third.persistence.claim("s"):
                    pytest.fail("it is stored")
            assert list((await third.resume("s")).events[:3]) == list(session.events)

    async def test_a_claim_without_a_session_leaves_nothing(self, tmp_path: Path) -> None:
        async with self.kept(tmp_path) as at:
            async with at.persistence.claim("s"):
                pass
            async with at.persistence.claim("s"):
                assert await at.persistence.list() == ()
            with pytest.raises(SessionNotFoundError):
                await at.resume("s")

    async def test_a_turn_that_a_crash_left_open_is_closed_once(self, tmp_path: Path) -> None:
        """M-117: Who only looks changes nothing; who loads makes it durable."""
        async with self.kept(tmp_path) as at:
            session = at.sessions.create("s")
            add_turn(session, end=False)
        async with self.kept(tmp_path) as at:
            seen = await at.persistence.inspect("s")
            assert await at.persistence.read_from("s", 0) == session.events
            loaded = await at.persistence.load("s")
            assert await at.persistence.read_from("s", 0) == loaded.events
            again = await at.persistence.load("s")

        assert seen == loaded == again
        assert loaded.events[-1].view == TurnEnd(1, Interrupted())

    async def test_a_live_session_is_neither_resumed_nor_deleted(self, tmp_path: Path) -> None:
        """M-118: Nor taken over while another part of the process has it."""
        async with self.kept(tmp_path) as at:
            session = at.sessions.create("s")
            add_turn(session)
            with pytest.raises(SessionExistsError):
                await at.resume("s")
            with pytest.raises(SessionStateError):
                await at.persistence.delete("s")
            with pytest.raises(SessionExistsError):
                await at.persistence.create(session.header)

    async def test_a_deleted_session_is_not_found(self, tmp_path: Path) -> None:
        """M-117, B-185: A clear error, whoever asks for it, each time."""
        async with self.kept(tmp_path) as at:
            add_turn(at.sessions.create("s"))
        async with self.kept(tmp_path) as at:
            await at.persistence.delete("s")
            assert await at.persistence.list() == ()
            for act in (at.persistence.delete, at.persistence.load, at.resume):
                with pytest.raises(SessionNotFoundError):
                    await act("s")

    async def test_a_log_that_disappears_is_written_again(self, tmp_path: Path) -> None:
        """M-118: Whoever removes it under a live session gets all of it back."""
        async with self.kept(tmp_path) as at:
            session = at.sessions.create("s")
            add_turn(session)
            await at.sessions.flush(session)
            await at.storage.delete("s")  # past the coordinator
            add_turn(session)
            await at.sessions.flush(session)
            async with self.storage(tmp_path) as reader:
                log = await reader.load_stored("s")

        assert log is not None
        assert list(log.events) == list(session.events)

    async def test_many_sessions_are_written_side_by_side(self, tmp_path: Path) -> None:
        """M-118: Each in its own order."""
        async with self.kept(tmp_path) as at:
            sessions = [at.sessions.create(f"s{number}") for number in range(40)]
            for _ in range(3):
                async with anyio.create_task_group() as group:
                    for session in sessions:
                        add_turn(session)
                        group.start_soon(at.sessions.flush, session)
        async with self.kept(tmp_path) as at:
            for session in sessions:
                assert (await at.persistence.load(session.id)).events == session.events


def _backend(storage: SessionStorage, window: float, lease_wait: float) -> Any:
    @plugin(inject=(Sessions,), provides=(SESSION_PERSISTENCE,), name="storage")
    async def backend(ctx: Context) -> AsyncIterator[None]:
        async with SessionCoordinator(
            ctx, storage, window=window, lease_wait=lease_wait
        ) as coordinator:
            ctx.provide(SESSION_PERSISTENCE, coordinator)
            yield

    return backend


@plugin(inject=(Sessions,), name="host")
def _host(ctx: Context) -> None:
    return None
