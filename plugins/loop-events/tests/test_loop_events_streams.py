"""Reading a session from any place on, and live."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

from loop_logs import Log, lines
from terret_agents import Agents
from terret_context import INTERNAL_ERROR, ContainedError, DuplicateEntryError
from terret_plugin_loop_events import (
    START,
    BadCursorError,
    Cursor,
    EventStream,
    LoopEvents,
    Output,
    Projection,
    UnknownProtocolError,
)
from terret_plugin_loop_events.types import LoopEvent
from terret_sessions import SessionEvent
from terret_testing import Harness, call, pause, reply, running_harness, say, script
from terret_tools import Tools, tool


@asynccontextmanager
async def watched(**config: object) -> AsyncIterator[tuple[Harness, LoopEvents]]:
    model = script(call("add", a=1, b=2), say("Three."), reply(say("Slow"), pause("here")))

    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with running_harness(plugins=[(LoopEvents, config)], model=model) as h:
        h.ctx[Tools].register(add)
        yield h, h.ctx[LoopEvents]


def stored(h: Harness, after: Cursor = START) -> list[tuple[str, object]]:
    replayed = h.ctx[LoopEvents].project(h.events, session_id="s", agent="a", after=after)
    return [(str(each.cursor), each.event) for each in replayed]


def opened(h: Harness, after: Cursor | None = None) -> EventStream:
    return h.ctx[LoopEvents].open(h.session, session_id="s", agent="a", after=after)


async def take(stream: EventStream, number: int) -> list[tuple[str, object]]:
    taken: list[Output] = []
    with anyio.fail_after(5):
        while len(taken) < number:
            taken.append(await anext(stream))
    return [(str(each.cursor), each.event) for each in taken]


async def test_what_is_streamed_live_is_what_the_log_gives() -> None:
    """E-082, E-112: Cursors are SEQ.K and rise."""
    async with watched() as (h, _):
        stream = opened(h)
        await h.send("1 + 2?")
        expected = stored(h)
        assert await take(stream, len(expected)) == expected
        places = [Cursor(*map(int, cursor.split("."))) for cursor, _ in expected]
        assert places == sorted(set(places))


async def test_a_log_may_be_folded_event_by_event() -> None:
    """E-080: What stands in the log decides, not who feeds it and when."""
    async with watched() as (h, events):
        await h.send("hi")
        fold = events.projection(session_id="s", agent="a")
        fed = [output for event in h.events for output in fold.feed(event)]
        assert fed == [event for _, event in stored(h)]


async def test_what_waits_is_taken_in_one_go() -> None:
    """A batch is never empty before the end."""
    async with watched() as (h, _):
        stream = opened(h)
        await h.send("1 + 2?")
        taken: list[Output] = []
        while len(taken) < len(stored(h)):
            taken += await stream.batch()
        assert [(str(each.cursor), each.event) for each in taken] == stored(h)
        stream.close()
        assert await stream.batch() == ()


async def test_a_stream_goes_on_behind_any_cursor() -> None:
    """E-083: The concatenation of two parts is the whole."""
    async with watched() as (h, _):
        await h.send("1 + 2?")
        whole = stored(h)
        for length, (cursor, _) in enumerate(whole, start=1):
            after = h.ctx[LoopEvents].cursor(cursor, length=len(h.events))
            assert stored(h, after) == whole[length:]
            assert await take(opened(h, after), len(whole) - length) == whole[length:]


async def test_the_last_turn_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """E-085: Neither to tell it again nor to stream on from it is the log folded again."""
    async with watched() as (h, events):
        await h.send("1 + 2?")
        recall = partial(events.recall, h.session, session_id="s", agent="a")
        whole = stored(h)
        recalled = recall()
        assert [(str(each.cursor), each.event) for each in recalled] == whole
        folded: list[SessionEvent] = []
        fold = Projection.feed

        def counted(self: Projection, event: SessionEvent) -> list[LoopEvent]:
            folded.append(event)
            return fold(self, event)

        monkeypatch.setattr(Projection, "feed", counted)
        for length, (cursor, _) in enumerate(whole, start=1):
            after = events.cursor(cursor, length=len(h.events))
            assert recall(after=after) == recalled[length:]
            assert await take(opened(h, after), len(whole) - length) == whole[length:]
        assert folded == []
        stream = opened(h)
        before = len(h.events)
        h.agent.send("And?")
        await h.model.reached("here")
        assert (await anext(stream)).event["type"] == "session"
        assert folded == list(h.events[before:]), "each new event once"
        assert recall()[0].event["type"] == "session"
        h.model.release("here")
        await h.agent.when_idle()
        ended = stored(h)
        assert [each.event for each in recall(after=START)] == [event for _, event in ended]


async def test_a_cursor_without_outputs_is_a_place_too() -> None:
    """Outputs behind an event that gives none are those of later ones."""
    async with watched() as (h, _):
        await h.send("1 + 2?")
        seq = next(event.seq for event in h.events if event.type == "user/message")
        after = [cursor for cursor, _ in stored(h) if int(cursor.partition(".")[0]) > seq]
        assert [cursor for cursor, _ in stored(h, Cursor(seq))] == after


@pytest.mark.parametrize(
    "text", ["", "1", "x.y", "1.-1", "01.0", "1.0.0", "9.0", "1e3.0", "\uff11.0"]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """Malformed, or behind the end of the log."""
    with pytest.raises(BadCursorError):
        Cursor.parse(text, length=9)
    assert Cursor.parse("8.1", length=9) == (8, 1)
    assert Cursor.parse("0", length=0) == START


async def test_without_cursor_a_stream_begins_with_the_open_turn_or_the_next_one() -> None:
    """At the live tail if nothing runs."""
    async with watched() as (h, _):
        await h.send("1 + 2?")
        idle = opened(h)
        h.agent.send("again")
        await h.model.reached("here")
        running = opened(h)
        current = await take(running, 2)
        assert lines(event for _, event in current) == ["session s", "budget:check ok 15 0"]  # type: ignore[misc]  # they are mappings
        assert await take(idle, 2) == current
        h.model.release("here")
        await h.agent.when_idle()
        assert await take(idle, 2) == await take(running, 2)


async def test_many_readers_get_the_same_objects() -> None:
    """Folded and encoded once."""
    async with watched() as (h, _):
        streams = [opened(h, START) for _ in range(10)]
        for stream in streams:
            with anyio.move_on_after(0):
                await anext(stream)
        await h.send("1 + 2?")
        taken = [[await anext(stream) for _ in range(8)] for stream in streams]
        assert all(part == taken[0] for part in taken)
        assert {part[3].json for part in taken} == {taken[0][3].json}


async def test_a_reader_that_lags_is_cut_and_the_others_are_not() -> None:
    """The turn does not wait; the reader goes on with its cursor."""
    async with watched() as (h, service):
        slow = service.open(h.session, session_id="s", agent="a", max_bytes=300)
        fast = opened(h)
        with anyio.move_on_after(0):
            await anext(slow)
        await h.send("1 + 2?")
        assert slow.overflowed.is_set()
        assert not fast.overflowed.is_set()
        with pytest.raises(StopAsyncIteration):
            await anext(slow)
        assert await take(fast, 8) == stored(h)[:8]


async def test_a_reader_that_keeps_up_is_not_cut() -> None:
    """What waits counts, not what went through."""
    async with watched() as (h, service):
        stream = service.open(h.session, session_id="s", agent="a", max_bytes=700)
        taken: list[Output] = []

        async def read() -> None:
            async for output in stream:
                taken.append(output)

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            h.model.release("here")
            for _ in range(2):
                await anyio.wait_all_tasks_blocked()
                await h.send("1 + 2?")
            await anyio.wait_all_tasks_blocked()
            stream.close()
        assert [(str(each.cursor), each.event) for each in taken] == stored(h)
        assert sum(len(each.json) for each in taken) > 700


@pytest.mark.parametrize("ends", ["session", "plugin", "reader"])
async def test_a_stream_ends_with_its_session_its_plugin_or_its_reader(ends: str) -> None:
    """What waits in it is still read."""
    async with watched() as (h, service):
        created = await h.ctx[Agents].create(session_id="other")
        log = Log(created.agent.session)
        stream = service.open(log.session, session_id="s", agent="a")
        with anyio.move_on_after(0):
            await anext(stream)
        log.start()
        if ends == "reader":
            stream.close()
        elif ends == "session":
            await created.dispose()
        else:
            await service.ctx.fiber.dispose()
        assert [each.event["type"] async for each in stream] == ["session"]


async def test_a_stream_of_a_session_that_ended_gives_what_is_stored() -> None:
    """Nobody waits for what cannot come."""
    async with watched() as (h, service):
        created = await h.ctx[Agents].create(session_id="other")
        log = Log(created.agent.session).start()
        await created.dispose()
        stream = service.open(log.session, session_id="s", agent="a", after=START)
        assert [each.event["type"] async for each in stream] == ["session"]


async def test_the_log_itself_is_a_protocol() -> None:
    """Every event with contiguous places, chunks included."""
    async with watched() as (h, service):
        stream = service.open(h.session, session_id="s", agent="a", protocol="log")
        await h.send("1 + 2?")
        rows = [await anext(stream) for _ in h.events]
        assert [each.cursor for each in rows] == [(event.seq, 0) for event in h.events]
        assert [each.event["data"] for each in rows] == [event.data for event in h.events]
        assert "assistant/chunk" in {each.event["type"] for each in rows}


class Count:
    """A projection that counts events."""

    def __init__(self, session_id: str, agent: str, *, copied: int = 0) -> None:
        self.number = 0

    def feed(self, event: SessionEvent) -> list[dict[str, object]]:
        self.number += 1
        return [{"count": self.number}]


async def test_another_protocol_may_be_registered() -> None:
    """E-101: Under its own name; v1 stays as it is."""
    async with watched() as (h, service):
        await h.send("1 + 2?")
        before = stored(h)
        effect = service.register("count", Count)
        counted = service.project(h.events, session_id="s", agent="a", protocol="count")
        assert [each.event["count"] for each in counted] == [*range(1, len(h.events) + 1)]
        assert stored(h) == before
        with pytest.raises(DuplicateEntryError):
            service.register("v1", Count)
        effect.close()
        with pytest.raises(UnknownProtocolError, match=r"known: v1, log") as unknown:
            service.open(h.session, session_id="s", agent="a", protocol="count")
        assert unknown.value.known == service.protocols == ("v1", "log")


async def test_live_events_are_checked_now_and_then() -> None:
    """E-010: A violation is reported and delivered all the same."""
    async with watched(validateEvery=1) as (h, _):
        reported: list[ContainedError] = []
        h.ctx.on(INTERNAL_ERROR, reported.append)
        stream = opened(h)
        with anyio.move_on_after(0):
            await anext(stream)
        log = Log(h.session).start()
        measured = {"turn": 1, "step": 1, "action": "odd", "usedTokens": 1, "budgetTokens": 2}
        log.write("budget/checked", **measured).step().end()
        assert [each.event.get("action") for each in [await anext(stream) for _ in range(2)]][1]
        assert [each.label for each in reported] == ["an event of protocol v1"]
