"""Events as they happen: frames, cursors, resume, readers that are slow or gone."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from agent_projects import Project
from http_apps import HI, ONE, SELL, STREAM, Frame, Service, Stream, run_service, until
from terret_agents import Agents
from terret_plugin_loop_events import LoopEvents, check
from terret_sessions import FLUSH, Session, SessionEvent
from terret_testing import call, pause, reply, say

EVENTS = "/agents/shop/sessions/one/events"


@asynccontextmanager
async def reading(
    service: Service, query: str = "", session: str = "one", **headers: str
) -> AsyncIterator[Stream]:
    path = f"/agents/shop/sessions/{session}/events{query}"
    async with service.client.stream("GET", path, headers=headers) as stream:
        yield stream


async def whole(service: Service, query: str = "?after=0&follow=turn") -> list[Frame]:
    async with reading(service, query) as stream:
        return await stream.events()


def raw(frames: list[Frame]) -> list[str]:
    return [frame.raw for frame in frames]


async def test_a_turn_is_streamed_event_by_event(project: Project) -> None:
    """E-110, E-112, E-114, E-130: The stream has the events of the plain answer, with ids."""
    async with run_service(project, say("Hello."), say("Hello.")) as service:
        plain = await service.client.send("Hi", sessionId="one")
        async with service.client.stream("POST", STREAM, HI) as stream:
            assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert stream.headers["x-accel-buffering"] == "no"
            assert stream.headers["cache-control"] == "no-store"
            assert stream.headers["terret-session-id"] == "one"
            first = await stream.frame()
            assert first is not None
            assert first.raw == "retry: 2000"
            frames = await stream.events()
        assert [frame.event for frame in frames] == plain.types
        assert [frame.data["type"] for frame in frames] == plain.types
        check([frame.data for frame in frames], agent="shop")
        assert [frame.raw.split("\n")[2] for frame in frames] == [f"id: {f.id}" for f in frames]
        places = [tuple(map(int, (frame.id or "").split("."))) for frame in frames]
        assert places == sorted(set(places))


async def test_any_text_stays_on_one_line(project: Project) -> None:
    """E-111."""
    text = "a\nb\r\nc\u2028d\u2029e \U0001f600 \u00e9"
    async with run_service(project, say(text)) as service:
        async with service.client.stream("POST", STREAM, HI) as stream:
            frames = await stream.events()
        done = frames[-1]
        assert done.data["text"] == text
        assert [line.partition(":")[0] for line in done.raw.split("\n")] == ["event", "data", "id"]
        assert "\r" not in done.raw


async def test_a_stream_that_is_silent_sends_comments(project: Project) -> None:
    """E-114, E-115: They carry no data."""
    slow = reply(pause("here"), say("Hello."))
    async with (
        run_service(project, slow, http="{heartbeatSeconds: 0.01}") as service,
        service.client.stream("POST", STREAM, HI) as stream,
    ):
        await service.model.reached("here")
        while (frame := await stream.frame()) is not None and frame.raw != ": keep-alive":
            pass
        assert frame is not None
        service.model.release("here")
        assert [frame.event for frame in await stream.events()] == ["loop:done", "done"]


async def test_a_stream_that_was_cut_goes_on_behind_any_of_its_frames(project: Project) -> None:
    """E-116, E-117: The parts together are the whole, frame by frame."""
    project.write({"agents/shop/tools/sell.py": SELL})
    async with run_service(project, call("sell", item="hat"), say("Sold.")) as service:
        async with service.client.stream("POST", STREAM, HI) as stream:
            sent = await stream.events()
        assert len(sent) == 9
        for number, frame in enumerate(sent[:-1], start=1):
            headers = {"last-event-id": str(frame.id)}
            async with reading(service, "?follow=turn&after=0", **headers) as stream:
                assert raw(sent[:number]) + raw(await stream.events()) == raw(sent)


async def test_a_client_that_goes_away_changes_nothing(project: Project) -> None:
    """E-123: The stream ends in the middle of the turn, the turn as it would have."""
    slow = reply(say("Some"), pause("here"), say(" text."))
    async with run_service(project, slow) as service:
        async with service.client.stream("POST", STREAM, HI) as stream:
            before = await stream.events(count=2)
            await service.model.reached("here")
        assert stream.cut.is_set()
        service.model.release("here")
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        await agent.when_idle()
        query = f"?follow=turn&after={before[-1].id}"
        assert [frame.event for frame in await whole(service, query)] == ["loop:done", "done"]


async def test_without_cursor_a_stream_begins_with_the_open_turn(project: Project) -> None:
    """E-118: Or with what comes next if there is none; `after=0` is the beginning of the log."""
    slow = reply(pause("here"), say("Two."))
    async with run_service(project, say("One."), slow) as service:
        await service.client.send("1", sessionId="one")
        async with reading(service) as idle, service.client.stream("POST", STREAM, HI) as turn:
            await service.model.reached("here")
            async with reading(service) as late:
                service.model.release("here")
                expected = raw(await turn.events())
                assert raw(await late.events(until="done")) == expected
            assert raw(await idle.events(until="done")) == expected
        texts = [f.data["text"] for f in await whole(service) if f.event == "done"]
        assert texts == ["One."]  # follow=turn
        async with reading(service, "?after=0") as stream:
            frames = await stream.events(count=8)
        assert [f.data["text"] for f in frames if f.event == "done"] == ["One.", "Two."]


async def test_following_a_turn_ends_with_it(project: Project) -> None:
    """E-119: Without anything to follow there is no content."""
    async with run_service(project, say("One.")) as service:
        last = (await service.client.send("1", sessionId="one")).json["cursor"]
        for query in ("", f"&after={last}"):
            empty = await service.client.get(f"{EVENTS}?follow=turn{query}")
            assert (empty.status, empty.body) == (204, b"")
        frames = await whole(service)
        assert frames[-1].event == "done"


async def test_following_a_session_goes_on_over_turns(project: Project) -> None:
    """E-120: Each is framed by `session` and its terminal."""
    async with run_service(project, say("One."), say("Two.")) as service:
        first = await service.client.send("1", sessionId="one")
        async with reading(service, "?after=0") as stream:
            await stream.events(until="done")
            second = await service.client.send("2", sessionId="one")
            events = [frame.data for frame in await stream.events(until="done")]
        assert events == second.json["events"]
        assert first.json["events"] != events


async def test_the_log_itself_is_a_protocol(project: Project) -> None:
    """E-121: Ids are contiguous; each of them is a cursor."""
    async with run_service(project, say("Hel", "lo.")) as service:
        await service.client.send("1", sessionId="one")
        frames = await whole(service, "?protocol=log&after=0&follow=turn")
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        assert [frame.id for frame in frames] == [str(n) for n in range(len(frames))]
        assert [f.event for f in frames] == [e.type for e in agent.session.events]
        assert "assistant/chunk" in {frame.event for frame in frames}
        headers = {"last-event-id": "0"}
        async with reading(service, "?protocol=log&follow=turn", **headers) as stream:
            assert raw(await stream.events()) == raw(frames[1:])


async def test_what_cannot_be_streamed_is_refused(project: Project) -> None:
    """E-122: The known names are listed."""
    refusals = {
        "?after=x": "400 bad_cursor",
        "?after=1": "400 bad_cursor",
        "?after=99999.0": "400 bad_cursor",
        "?follow=all": "400 bad_query",
        "?protocol=v9": "400 bad_query",
    }
    async with run_service(project, say("One.")) as service:
        await service.client.send("1", sessionId="one")
        for query, code in refusals.items():
            refused = await service.client.get(f"{EVENTS}{query}")
            assert refused.code == code
            assert refused.headers["content-type"] == "application/json"
            if "protocol" in query:
                assert "v1, log" in refused.json["error"]
        bad_header = await service.client.get(EVENTS, **{"last-event-id": "nonsense"})
        assert bad_header.code == "400 bad_cursor"
        head = await service.client.request("HEAD", EVENTS)
        assert (head.status, head.body) == (200, b"")


async def test_ten_readers_see_the_same(project: Project) -> None:
    """E-125."""
    slow = reply(pause("here"), say("One."))
    async with (
        run_service(project, slow) as service,
        service.client.stream("POST", STREAM, HI) as turn,
        anyio.create_task_group() as group,
    ):
        await service.model.reached("here")
        seen: list[list[str]] = []

        async def read() -> None:
            async with reading(service) as stream:
                seen.append(raw(await stream.events(until="done")))

        for _ in range(10):
            group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        service.model.release("here")
        expected = raw(await turn.events())
        await until(lambda: len(seen) == 10)
        assert seen == [expected] * 10


async def test_a_reader_that_stops_reading_is_cut(project: Project) -> None:
    """E-124: Other readers and the turn do not mind, and it may come back with its cursor."""
    turns = [say("long " * 2000) for _ in range(4)]
    async with run_service(
        project, say("One."), *turns, http="{slowReaderBytes: 60000}"
    ) as service:
        await service.client.send("Hi", sessionId="one")
        query = "?protocol=log&after=0"
        path = f"{EVENTS}{query}"
        async with (
            reading(service, query) as quick,
            service.client.stream("GET", path, takes=3) as stuck,
        ):
            seen = await stuck.events(count=1)
            read = await quick.events(until="turn/end")
            for _ in turns:
                assert (await service.client.send("Hi", sessionId="one")).status == 200
                read += await quick.events(until="turn/end")
            await stuck.cut.wait()
        last = str(seen[-1].id)
        async with reading(service, "?protocol=log", **{"last-event-id": last}) as again:
            assert raw(seen + await again.events(count=len(read) - len(seen))) == raw(read)


async def test_a_message_that_never_enters_a_turn_ends_its_own_stream(project: Project) -> None:
    """E-126, E-188: With `session` and `error`, both without id."""
    slow = reply(pause("here"), say("One."))
    async with (
        run_service(project, slow) as service,
        service.client.stream("POST", STREAM, HI) as first,
    ):
        await service.model.reached("here")
        async with service.client.stream("POST", STREAM, HI) as second:
            cancelled = await service.client.post("/agents/shop/sessions/one/cancel", {})
            assert cancelled.json == {"cancelled": True, "sessionId": "one"}
            frames = await second.events()
        assert [(frame.event, frame.id) for frame in frames] == [("session", None), ("error", None)]
        assert frames[0].data == {"type": "session", "sessionId": "one"}
        ended = (await first.events())[-1]
        assert ended.data == {"type": "error", "error": "aborted: user"}


async def test_another_protocol_is_chosen_by_name(project: Project) -> None:
    """E-101."""

    class Names:
        def feed(self, event: SessionEvent) -> Sequence[Mapping[str, object]]:
            return [{"type": "name", "name": event.type}]

    async with run_service(project, say("One.")) as service:
        service.ctx[LoopEvents].register("names", lambda session_id, agent, copied=0: Names())
        await service.client.send("1", sessionId="one")
        async with reading(service, "?protocol=names&after=0") as stream:
            (frame,) = await stream.events(count=1)
        assert (frame.event, frame.data["name"]) == ("name", "agent/inbox/spliced")


async def test_what_ends_the_wait_of_a_client_is_durable_before_it_is_sent(
    seller: Project,
) -> None:
    """E-116, E-127: After a crash it is found again, and the cursor is one of the log."""
    asks = reply(pause("here"), call("sell", item="hat"))
    async with (
        run_service(seller, asks) as service,
        service.client.stream("POST", STREAM, HI) as stream,
    ):
        await service.model.reached("here")
        held, let_go = anyio.Event(), anyio.Event()

        async def flush(session: Session) -> None:
            held.set()
            await let_go.wait()

        service.ctx.on(FLUSH, flush)
        await stream.events(until="budget:check")
        service.model.release("here")
        await held.wait()
        await anyio.wait_all_tasks_blocked()
        assert stream.chunks.statistics().current_buffer_used == 0
        let_go.set()
        assert (await stream.events(until="approval:pending"))[-1].event == "approval:pending"


async def test_items_are_streamed_to_whoever_follows(seller: Project) -> None:
    """E-144: The turn waits for the decision, not for the reader."""
    async with run_service(seller, call("sell", item="hat"), say("Sold.")) as service:
        async with service.client.stream("POST", STREAM, HI) as stream:
            pending = (await stream.events(until="approval:pending"))[-1].data
        ended = await service.client.post(f"/approvals/{pending['id']}/approve")
        assert ended.json["text"] == "Sold."
