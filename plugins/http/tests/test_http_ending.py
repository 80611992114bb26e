"""The end of the service, and what comes after a restart."""

import json

import anyio
from starlette.types import Message, Scope

from agent_projects import Project
from http_apps import HI, ONE, STREAM, Reply, Service, run_service, until
from terret_agents import Agents
from terret_plugin_http import Http
from terret_testing import call, pause, reply, say

EVENTS = "/agents/shop/sessions/one/events"


async def until_draining(service: Service) -> None:
    await until(lambda: service.ctx[Http].status == "draining")


async def test_running_turns_may_finish_when_the_service_ends(project: Project) -> None:
    """E-190: Meanwhile it takes no messages and says so, and healthz stays fine."""
    slow = reply(pause("here"), say("Done."))
    async with (
        run_service(project, slow) as service,
        service.client.stream("POST", STREAM, HI) as turn,
        service.client.stream("GET", EVENTS) as follower,
        anyio.create_task_group() as group,
    ):
        await service.model.reached("here")
        assert (await service.client.get("/readyz")).json == {"status": "ready"}
        group.start_soon(service.ctx[Http].drain)
        await until_draining(service)
        ready = await service.client.get("/readyz")
        assert (ready.status, ready.json) == (503, {"status": "draining"})
        assert (await service.client.get("/healthz")).status == 200
        for session in ("one", "two"):
            refused = await service.client.send("Hi", sessionId=session)
            assert refused.code == "503 draining"
        service.model.release("here")
        assert (await turn.events())[-1].data["text"] == "Done."
        assert (await follower.events())[-1].event == "done", "the stream of a session ends too"
        await service.ctx[Http].drain()
        assert service.ctx[Http].status == "drained"


async def test_decisions_count_while_the_service_ends(seller: Project) -> None:
    """E-191: They let the turn finish."""
    async with (
        run_service(seller, call("sell", item="hat"), say("Sold.")) as service,
        anyio.create_task_group() as group,
    ):
        asked = await service.client.send("Hi", sessionId="one")
        group.start_soon(service.ctx[Http].drain)
        await until_draining(service)
        approved = await service.client.post(asked.json["approveUrl"])
        assert approved.json["text"] == "Sold."


async def test_what_is_left_when_the_service_ends_is_stopped(seller: Project) -> None:
    """E-192, E-126: Open items with it; what waits in the inbox stays there, and is told so."""
    async with (
        run_service(seller, call("sell", item="hat"), say("Kept.")) as service,
        service.client.stream("POST", STREAM, HI) as turn,
    ):
        pending = (await turn.events(until="approval:pending"))[-1].data
        async with service.client.stream("POST", STREAM, HI) as queued:
            await service.ctx[Http].drain(0)
            last = (await turn.events())[-1]
            assert last.data == {"type": "error", "error": "aborted: hook: shutdown"}
            frames = await queued.events()
        assert [(frame.event, frame.id) for frame in frames] == [("session", None), ("error", None)]
        late = await service.client.post(f"/approvals/{pending['id']}/approve")
        assert (late.code, late.json["outcome"]) == ("404 already_decided", "cancelled")
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        assert len(agent.inbox.next_turn) == 1
    async with run_service(seller, say("Kept."), say("New.")) as service:
        assert (await service.client.send("And?", sessionId="one")).json["text"] == "New."
        status = (await service.client.get("/agents/shop/sessions/one")).json
        assert status["lastTurn"] == {"turn": 3, "end": "completed"}


async def test_whoever_waits_for_a_message_is_answered_when_the_service_ends(
    project: Project,
) -> None:
    """E-192: A plain request, too."""
    slow = reply(pause("here"))
    async with run_service(project, slow) as service, anyio.create_task_group() as group:
        replies: list[Reply] = []

        async def send() -> None:
            replies.append(await service.client.send("Hi", sessionId="one"))

        group.start_soon(send)
        await service.model.reached("here")
        group.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        await service.ctx[Http].drain(0)
        await until(lambda: len(replies) == 2)
        assert [each.code for each in replies] == ["409 aborted", "503 draining"]


async def test_a_body_that_does_not_arrive_is_not_waited_for(project: Project) -> None:
    """E-190: What had no answer yet gets the same one."""
    path, sent = "/agents/shop/messages", list[Message]()
    reading = anyio.Event()
    scope: Scope = {
        **{"type": "http", "method": "POST", "path": path, "raw_path": path.encode()},
        **{"query_string": b"", "client": ("127.0.0.1", 50000)},
        "headers": [(b"host", b"localhost:8787"), (b"content-type", b"application/json")],
    }

    async def receive() -> Message:
        reading.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    async with run_service(project) as service, anyio.create_task_group() as group:

        async def ask() -> None:
            await service.client.app(scope, receive, send)

        group.start_soon(ask)
        await reading.wait()
        await service.ctx[Http].drain()
        await until(lambda: len(sent) == 2)
        assert sent[0]["status"] == 503
        assert json.loads(sent[1]["body"])["code"] == "draining"


async def test_streams_go_on_after_a_restart(seller: Project) -> None:
    """E-127, E-344, E-572, E-573: What was open is closed, and nothing runs by itself."""
    script = (call("sell", item="hat"),)
    async with (
        run_service(seller, *script) as service,
        service.client.stream("POST", STREAM, HI) as turn,
    ):
        seen = await turn.events(until="approval:pending")
        await service.client.send("Hi", sessionId="one")  # is told of the item, so it is durable
        asked = seen[-1].data["id"]
        (path,) = (seller.root / ".terret/sessions").rglob("*.jsonl")
        killed = path.read_bytes()  # as it is on disk in the middle of the turn
    path.write_bytes(killed)
    async with run_service(seller, call("sell", item="hat"), say("Sold.")) as service:
        late = await service.client.post(f"/approvals/{asked}/approve")
        assert (late.code, late.json["outcome"]) == ("404 already_decided", "cancelled")
        resume = f"{EVENTS}?follow=turn&after={seen[-1].id}"
        async with service.client.stream("GET", resume) as stream:
            rest = await stream.events()
        assert [frame.data for frame in rest] == [{"type": "error", "error": "interrupted"}]
        late = await service.client.post(f"/approvals/{asked}/approve")
        assert (late.code, late.json["outcome"]) == ("404 already_decided", "cancelled")
        assert service.model.requests == []
        again = await service.client.send("Go on", sessionId="one")
        assert again.json["id"] != asked
        assert (await service.client.post(again.json["approveUrl"])).json["text"] == "Sold."


async def test_a_retry_after_a_restart_joins_the_turn_of_the_first(project: Project) -> None:
    """E-151, E-498: The log knows the message; an interrupted turn is told as that."""
    async with run_service(project, say("Once.")) as service:
        first = await service.client.send("Hi", sessionId="one", messageId="m-1")
        (path,) = (project.root / ".terret/sessions").rglob("*.jsonl")
        whole = path.read_bytes()
    async with run_service(project) as service:
        again = await service.client.send("Hi", sessionId="one", messageId="m-1")
        assert again.json == first.json
    rows = whole.splitlines(keepends=True)
    entered = next(at for at, row in enumerate(rows) if b'"user/message"' in row)
    for length, code in ((entered + 1, "503 interrupted"), (entered - 1, None)):
        path.write_bytes(b"".join(rows[:length]))
        async with run_service(project, say("Again.")) as service:
            again = await service.client.send("Hi", sessionId="one", messageId="m-1")
            if code is not None:
                assert again.code == code
                assert again.types[-1] == "error"
            else:
                assert again.json["text"] == "Again.", "no step had taken the message"
