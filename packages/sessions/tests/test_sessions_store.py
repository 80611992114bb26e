from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from terret_context import Container, Context, plugin
from terret_llm import HarnessError, LlmFailure, create_user_message
from terret_sessions import (
    CREATED,
    DISPOSED,
    EVENT,
    FLUSH,
    Aborted,
    Blocked,
    CancelCause,
    Completed,
    Errored,
    Interrupted,
    MaxSteps,
    MaxTokens,
    Session,
    SessionBusyError,
    SessionEvent,
    SessionExistsError,
    SessionNotLiveError,
    Sessions,
    SessionStateError,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)


class Recorder:
    """Writes down the events of the container that reach it."""

    def __init__(self, ctx: Context, **options: bool) -> None:
        self.seen: list[str] = []
        ctx.on(CREATED, self._created, **options)
        ctx.on(EVENT, self._event, **options)
        ctx.on(DISPOSED, self._disposed, **options)

    def _created(self, session: Session) -> None:
        self.seen.append(f"created {session.id}")

    def _event(self, session: Session, event: SessionEvent) -> None:
        self.seen.append(f"{event.type} {session.id}")

    def _disposed(self, session: Session) -> None:
        self.seen.append(f"disposed {session.id}")


@asynccontextmanager
async def store() -> AsyncIterator[tuple[Container, Context]]:
    """A container with sessions, and the context of a plugin that uses them."""
    async with Container() as root:
        root.plugin(Sessions)
        yield root, await mount(root)


async def mount(root: Context, name: str = "host") -> Context:
    fiber = root.plugin(plugin(inject=(Sessions,), name=name)(_nothing))
    await fiber.ready()
    ctx: Context = fiber.ctx
    return ctx


def _nothing(ctx: Context) -> None:
    return None


def _turn(session: Session, reason: TurnEndReason | None = None) -> None:
    number = session.last_turn + 1
    session.append("turn/start", TurnStart(number))
    session.append("turn/end", TurnEnd(number, reason or Completed()))


async def test_create_announces_and_then_events_follow() -> None:
    """S-030: created, then events; events of the seed are not announced."""
    async with store() as (_, ctx):
        recorder = Recorder(ctx)
        session = ctx[Sessions].create("a", seed=())
        session.append("turn/start", TurnStart(1))

        assert recorder.seen == ["created a", "turn/start a"]
        assert ctx[Sessions].get("a") is session
        assert [event.type for event in session.events] == ["session/end-seed", "turn/start"]


async def test_an_id_is_live_once() -> None:
    """S-030, S-031: Duplicates are refused, whichever way they come."""
    async with store() as (_, ctx):
        prepared = ctx[Sessions].prepare("a")
        ctx[Sessions].create("a")

        with pytest.raises(SessionExistsError):
            ctx[Sessions].create("a")
        with pytest.raises(SessionExistsError):
            ctx[Sessions].enter(prepared)
        assert len(ctx[Sessions].list()) == 1


async def test_a_session_joins_one_store_once() -> None:
    """S-031: Neither a second store, nor the same one again."""
    async with store() as (_, ctx), store() as (_, other):
        session = ctx[Sessions].create("a")
        with pytest.raises(SessionStateError):
            other[Sessions].enter(session)

        detach = ctx[Sessions].enter(ctx[Sessions].prepare("b"))
        detached = ctx[Sessions].get("b")
        detach.close()
        assert detached is not None
        with pytest.raises(SessionStateError):
            ctx[Sessions].enter(detached)


async def test_create_is_prepare_enter_announce() -> None:
    """S-032: In three steps it is the same; a second announcement is refused."""
    async with store() as (_, ctx):
        recorder = Recorder(ctx)
        sessions = ctx[Sessions]
        session = sessions.prepare("a")
        assert (sessions.get("a"), session.live) == (None, False)
        sessions.enter(session)
        assert (sessions.get("a"), session.live, recorder.seen) == (session, True, [])
        sessions.announce(session)

        assert recorder.seen == ["created a"]
        with pytest.raises(SessionStateError, match="announced before"):
            sessions.announce(session)


async def test_detaching_is_exact_and_idempotent() -> None:
    """S-033: The effect of one session does not touch its successor of the same id."""
    async with store() as (_, ctx):
        recorder = Recorder(ctx)
        sessions = ctx[Sessions]
        detach = sessions.enter(first := sessions.prepare("a"))
        sessions.announce(first)
        detach.close()
        second = sessions.create("a")
        detach.close()

        assert sessions.list() == (second,)
        assert recorder.seen == ["created a", "disposed a", "created a"]
        with pytest.raises(SessionNotLiveError):
            sessions.announce(first)


async def test_a_session_that_was_never_announced_is_not_disposed() -> None:
    """S-033: Only a begun announcement is paired."""
    async with store() as (_, ctx):
        recorder = Recorder(ctx)
        ctx[Sessions].enter(ctx[Sessions].prepare("a")).close()

        assert recorder.seen == []


async def test_a_detach_inside_the_announcement_waits_for_its_end() -> None:
    """S-033: Every listener sees a live session; the caller learns that it is gone."""
    async with store() as (_, ctx):
        sessions = ctx[Sessions]
        session = sessions.prepare("a")
        detach = sessions.enter(session)
        seen = []
        ctx.on(CREATED, lambda session: detach.close())
        ctx.on(CREATED, lambda session: seen.append(session.live))
        recorder = Recorder(ctx)

        with pytest.raises(SessionNotLiveError):
            sessions.announce(session)

        assert seen == [True]
        assert recorder.seen == ["created a", "disposed a"]
        assert sessions.get("a") is None


async def test_a_listener_can_refuse_a_session() -> None:
    """S-030, S-033: The veto rolls back, is paired with disposal, and is raised as it is."""
    async with store() as (_, ctx):
        recorder = Recorder(ctx)

        def refuse(session: Session) -> None:
            raise PermissionError("no more sessions")

        ctx.on(CREATED, refuse)
        with pytest.raises(PermissionError, match="no more sessions"):
            ctx[Sessions].create("a")

        assert recorder.seen == ["created a", "disposed a"]
        assert ctx[Sessions].list() == ()


async def test_an_owner_that_unloads_inside_the_announcement_takes_the_session_along() -> None:
    """S-034: The session is gone with its owner, and disposal is paired."""
    async with store() as (root, ctx):
        recorder = Recorder(ctx)
        owner = await mount(root, "owner")
        ctx.on(CREATED, lambda session: owner.fiber.retire())
        owner[Sessions].create("a")
        await root.settle()

        assert recorder.seen == ["created a", "disposed a"]
        assert ctx[Sessions].list() == ()


async def test_a_session_lives_as_long_as_the_fiber_that_created_it() -> None:
    """S-036: Not as long as the store, and not as long as others."""
    async with store() as (root, ctx):
        recorder = Recorder(ctx)
        owner = await mount(root, "owner")
        owner[Sessions].create("a")
        ctx[Sessions].create("b")
        await owner.fiber.dispose(check=True)

        assert [session.id for session in ctx[Sessions].list()] == ["b"]
        assert recorder.seen == ["created a", "created b", "disposed a"]


async def test_observers_fail_for_themselves_only() -> None:
    """S-037: After the commit each failure is contained, and the order stays."""
    async with store() as (_, ctx):
        calls = []

        def broken(session: Session, event: SessionEvent) -> None:
            calls.append("broken")
            raise RuntimeError("observer")

        ctx.on(EVENT, broken)
        ctx.on(EVENT, lambda session, event: calls.append("whole"))
        session = ctx[Sessions].create("a")
        _turn(session)

        assert calls == ["broken", "whole", "broken", "whole"]
        assert len(session.events) == 2


async def test_an_observer_cannot_append() -> None:
    """S-037: It raises in the listener and is contained there; the log is unharmed."""
    async with store() as (_, ctx):
        errors: list[Exception] = []

        def answer(session: Session, event: SessionEvent) -> None:
            try:
                session.append("turn/start", TurnStart(2))
            except SessionBusyError as error:
                errors.append(error)
                raise

        ctx.on(EVENT, answer)
        session = ctx[Sessions].create("a")
        session.append("turn/start", TurnStart(1))

        assert [str(error)[:20] for error in errors] == ["session 'a' is publi"]
        assert [event.seq for event in session.events] == [0]


async def test_a_listener_that_comes_during_an_append_hears_the_next_one() -> None:
    """S-104: An append in progress keeps the listeners it began with."""
    async with store() as (_, ctx):
        late: list[int] = []
        gone: list[int] = []

        def change(session: Session, event: SessionEvent) -> None:
            if event.seq == 0:
                ctx.on(EVENT, lambda session, event: late.append(event.seq))
                leaving.close()

        ctx.on(EVENT, change)
        leaving = ctx.on(EVENT, lambda session, event: gone.append(event.seq))
        _turn(ctx[Sessions].create("a"))

        assert (late, gone) == ([1], [0])


async def test_a_validator_sees_the_candidate_before_the_commit_and_may_refuse() -> None:
    """S-038: Log, surface and folds do not move on a veto, and nobody hears of it."""
    async with store() as (_, ctx):
        seen: list[tuple[str, int]] = []
        recorder = Recorder(ctx)

        def check(session: Session, event: SessionEvent) -> None:
            seen.append((event.type, len(session.events)))
            if event.type == "user/message":
                raise PermissionError("not this one")

        ctx[Sessions].validator(check)
        session = ctx[Sessions].create("a")
        session.append("turn/start", TurnStart(1))
        with pytest.raises(PermissionError):
            session.append("user/message", create_user_message("x"), surface_op="append")
        session.append("turn/end", TurnEnd(1, Completed()))

        assert seen == [("turn/start", 0), ("user/message", 1), ("turn/end", 1)]
        assert [event.seq for event in session.events] == [0, 1]
        assert session.surface.seqs == ()
        assert recorder.seen == ["created a", "turn/start a", "turn/end a"]


async def test_a_validator_reaches_the_sessions_of_its_scope() -> None:
    """S-103: Those made before it too; ending the effect removes it."""
    async with store() as (_, ctx):
        key = object()
        scoped = ctx.scope(key)
        inside, outside = scoped[Sessions].create("in"), ctx[Sessions].create("out")
        seen: list[str] = []
        local = scoped[Sessions].validator(lambda session, event: seen.append(session.id))
        ctx[Sessions].validator(lambda session, event: seen.append("all"))
        for session in (inside, outside):
            session.append("turn/start", TurnStart(1))
        assert sorted(seen) == ["all", "all", "in"]

        local.close()
        seen.clear()
        inside.append("turn/end", TurnEnd(1, Completed()))
        assert seen == ["all"]


async def test_a_validator_goes_with_its_plugin() -> None:
    """S-103: Unloading takes it from every session."""
    async with store() as (root, ctx):
        strict = await mount(root, "strict")

        def refuse(session: Session, event: SessionEvent) -> None:
            raise PermissionError

        strict[Sessions].validator(refuse)
        session = ctx[Sessions].create("a")
        with pytest.raises(PermissionError):
            _turn(session)
        await strict.fiber.dispose(check=True)
        _turn(session)

        assert len(session.events) == 2


@pytest.mark.parametrize("place", ["validator", "listener"])
async def test_a_detach_waits_for_the_end_of_the_append(place: str) -> None:
    """S-039: Through validation, commit and publication the session is live."""
    async with store() as (_, ctx):
        recorder = Recorder(ctx)
        session = ctx[Sessions].prepare("a")
        detach = ctx[Sessions].enter(session)
        ctx[Sessions].announce(session)
        live: list[bool] = []

        def leave(session: Session, event: SessionEvent) -> None:
            detach.close()
            live.append(session.live)

        if place == "validator":
            ctx[Sessions].validator(leave)
        ctx.on(EVENT, leave)
        session.append("turn/start", TurnStart(1))

        assert set(live) == {True}
        assert not session.live
        assert recorder.seen == ["created a", "turn/start a", "disposed a"]


async def test_observers_of_a_disposal_fail_for_themselves_only() -> None:
    """S-040: Each is contained."""
    async with store() as (_, ctx):
        recorder: list[str] = []

        def broken(session: Session) -> None:
            raise RuntimeError("observer")

        ctx.on(DISPOSED, broken)
        ctx.on(DISPOSED, lambda session: recorder.append(session.id))
        session = ctx[Sessions].prepare("a")
        detach = ctx[Sessions].enter(session)
        ctx[Sessions].announce(session)
        detach.close()

        assert recorder == ["a"]


async def test_a_flush_tells_whether_anybody_keeps_the_session() -> None:
    """S-041: Without listeners it is False."""
    async with store() as (_, ctx):
        session = ctx[Sessions].create("a")
        assert await ctx[Sessions].flush(session) is False

        async def keep(session: Session) -> None:
            await anyio.lowlevel.checkpoint()

        ctx.on(FLUSH, keep)
        assert await ctx[Sessions].flush(session) is True


async def test_a_flush_waits_for_all_and_raises_the_first_failure() -> None:
    """S-041: In listener order and as it is, not as a group; the others are reported."""
    async with store() as (_, ctx):
        session = ctx[Sessions].create("a")
        done: list[str] = []
        first_may_fail = anyio.Event()

        async def slow(session: Session) -> None:
            await first_may_fail.wait()
            raise OSError("first")

        def plain(session: Session) -> None:
            raise ValueError("second")

        async def last(session: Session) -> None:
            await anyio.lowlevel.checkpoint()
            done.append("last")
            first_may_fail.set()

        for listener in (slow, plain, last):
            ctx.on(FLUSH, listener)
        with pytest.raises(OSError, match="first"):
            await ctx[Sessions].flush(session)

        assert done == ["last"]


async def test_only_a_live_session_can_be_flushed() -> None:
    """S-041: Neither a prepared one nor one that is gone."""
    async with store() as (_, ctx):
        with pytest.raises(SessionNotLiveError):
            await ctx[Sessions].flush(ctx[Sessions].prepare("a"))


async def test_events_are_dispatched_in_the_scope_of_the_session() -> None:
    """S-042: A scoped listener hears its sessions, an unscoped one all; bare ones nobody."""
    async with store() as (_, ctx):
        key, other = object(), object()
        scoped = ctx.scope(key)
        mine, all_, others = Recorder(scoped), Recorder(ctx), Recorder(ctx.scope(other))
        scoped[Sessions].create("in")
        explicit = ctx[Sessions].prepare("given")
        ctx[Sessions].enter(explicit, scope=key)
        ctx[Sessions].announce(explicit)
        ctx[Sessions].create("out")
        Session("bare").append("turn/start", TurnStart(1))

        assert (explicit.scope, mine.seen) == (key, ["created in", "created given"])
        assert all_.seen == ["created in", "created given", "created out"]
        assert others.seen == []


@pytest.mark.parametrize(
    "reason",
    [
        Completed(),
        MaxTokens(),
        Aborted(CancelCause("user")),
        Blocked(),
        Errored(LlmFailure("x", "UNKNOWN")),
        Interrupted(),
        MaxSteps(1),
    ],
)
async def test_a_fork_begins_with_the_log_of_its_source(reason: TurnEndReason) -> None:
    """S-073: By default all of it, after any end of a turn, with parent, length and cwd."""
    async with store() as (_, ctx):
        source = ctx[Sessions].create("a", meta={"cwd": "/x", "agentPreset": "p"})
        _turn(source, reason)
        source.append("tool/decision", {"after": "the turn"})

        child = ctx[Sessions].fork("a", child_id="b")

        assert list(child.events)[:-1] == list(source.events)
        assert (child.header.parent_session, child.header.cwd) == ("a", "/x")
        assert (child.header.seed_length, child.first_live_seq) == (3, 3)
        assert ctx[Sessions].get("b") is child


async def test_a_fork_at_a_boundary_leaves_the_rest_behind() -> None:
    """S-073: An earlier boundary is fine while the tail is open; so is an empty source."""
    async with store() as (_, ctx):
        empty = ctx[Sessions].create("empty")
        source = ctx[Sessions].create("a")
        _turn(source)
        source.append("turn/start", TurnStart(2))

        child = ctx[Sessions].fork(source, 1)

        assert [event.type for event in child.events] == [
            "turn/start",
            "turn/end",
            "session/end-seed",
        ]
        assert [event.type for event in ctx[Sessions].fork(empty).events] == ["session/end-seed"]


async def test_a_fork_that_cannot_be_made_says_why_in_this_order() -> None:
    """S-074: Live child id, unknown, detached or stale source, boundary, open turn."""
    async with store() as (_, ctx):
        sessions = ctx[Sessions]
        source = sessions.create("a")
        _turn(source)
        source.append("turn/start", TurnStart(2))
        stale = Session("a")
        attempts: list[tuple[Callable[[], Any], str]] = [
            (lambda: sessions.fork("nobody", 99, "a"), "SESSION_ALREADY_EXISTS"),
            (lambda: sessions.fork("nobody", 99), "SESSION_NOT_FOUND"),
            (lambda: sessions.fork(Session("b"), 99), "SESSION_NOT_LIVE"),
            (lambda: sessions.fork(stale, 99), "SESSION_NOT_LIVE"),
            (lambda: sessions.fork("a", 99), "INVALID_BOUNDARY"),
            (lambda: sessions.fork("a", -1), "INVALID_BOUNDARY"),
            (lambda: sessions.fork("a", True), "INVALID_BOUNDARY"),
            (lambda: sessions.fork("a", 2), "OPEN_TURN"),
            (lambda: sessions.fork("a"), "OPEN_TURN"),
            (lambda: sessions.fork("a", 0), "OPEN_TURN"),
        ]

        for attempt, code in attempts:
            with pytest.raises(HarnessError) as caught:
                attempt()
            assert caught.value.code == code
        assert sessions.list() == (source,)


async def test_the_seed_of_a_fork_can_be_taken_along() -> None:
    """S-073: For whoever creates the child in another way."""
    async with store() as (_, ctx):
        source = ctx[Sessions].create("a")
        _turn(source)
        seed, meta = ctx[Sessions].fork_seed(source, 1)

        assert seed == tuple(source.events)
        assert (meta.parent_session, meta.seed_length) == ("a", 2)
