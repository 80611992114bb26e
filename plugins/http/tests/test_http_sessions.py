"""Sessions: lists, status, cancel, delete."""

import anyio
import anyio.lowlevel
import pytest

from agent_projects import Project
from http_apps import HI, ONE, STREAM, Reply, Service, run_service, until
from terret_agents import Agents
from terret_plugin_agent_folders import AgentFolders
from terret_sessions import SESSION_PERSISTENCE, SessionMeta, Sessions, TurnEnd
from terret_testing import call, pause, reply, say
from terret_tools import Tools, tool

SESSIONS = "/agents/shop/sessions"


async def at_rest(service: Service, session: str = "one") -> None:
    agent = service.ctx[Agents].get(f"default:production:shop:{session}")
    assert agent is not None
    await agent.when_idle()


async def test_sessions_are_listed_newest_first_and_page_by_page(project: Project) -> None:
    """E-180: Live and stored ones alike."""
    answers = [say(f"{number}.") for number in range(6)]
    async with run_service(project, *answers) as service:
        for name in ("a", "b", "c", "d", "e"):
            await service.client.send("Hi", sessionId=name)
            await anyio.sleep(0.002)  # the next millisecond of the log
        await service.client.send("Hi", sessionId="b")
        for agent in service.ctx[Agents].list()[:3]:
            await agent.when_idle()
            await service.ctx[AgentFolders].release(agent)
        pages: list[list[str]] = []
        query = "?limit=2"
        while query:
            page = (await service.client.get(f"{SESSIONS}{query}")).json
            pages.append([entry["sessionId"] for entry in page["sessions"]])
            query = f"?limit=2&cursor={page['nextCursor']}" if "nextCursor" in page else ""
        assert pages == [["b", "e"], ["d", "c"], ["a"]]
        entry = (await service.client.get(SESSIONS)).json["sessions"][0]
        assert (entry["status"], entry["turns"], entry["pending"]) == ("idle", 2, 0)
        assert entry["createdAt"] <= entry["updatedAt"]
        for bad in ("?limit=0", "?limit=many", "?cursor=!", "?cursor=W10="):
            assert (await service.client.get(f"{SESSIONS}{bad}")).status == 400


async def test_a_session_is_idle_running_or_waiting(seller: Project) -> None:
    """E-180, E-181, E-497: Its status can be read in the middle of a turn."""
    answers = (reply(say("Let me"), pause("here"), call("sell", item="hat")), say("Sold."))
    async with run_service(seller, *answers) as service:
        seen: list[tuple[str, str, int]] = []

        async def look() -> None:
            (entry,) = (await service.client.get(SESSIONS)).json["sessions"]
            status = (await service.client.get(f"{SESSIONS}/one")).json
            seen.append((entry["status"], status["status"], entry["pending"]))
            assert len(status["pending"]) == entry["pending"]
            assert status["history"][0]["content"] == [{"type": "text", "text": "Hi"}]

        async with service.client.stream("POST", STREAM, HI) as stream:
            await service.model.reached("here")
            await look()
            service.model.release("here")
            pending = (await stream.events(until="approval:pending"))[-1].data
            await look()
            status = (await service.client.get(f"{SESSIONS}/one")).json
            (item,) = status["pending"]
            assert (item["type"], item["id"], item["tool"]) == ("approval", pending["id"], "sell")
            assert item["requestedAt"] == pending["requestedAt"]
            assert "end" not in status["lastTurn"]
            await service.client.post(item["approveUrl"])
            await look()
        assert seen == [("running", "running", 0), ("waiting", "waiting", 1), ("idle", "idle", 0)]


async def test_a_status_is_that_of_one_moment(
    seller: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-181: Also if the turn goes on while the sessions below are looked for."""
    async with run_service(seller, call("sell", item="hat"), say("Sold.")) as service:
        asked = await service.client.send("Hi", sessionId="one")
        persistence = service.ctx[SESSION_PERSISTENCE]
        listed = persistence.list

        async def list_later() -> object:
            await service.client.post(asked.json["approveUrl"])
            return await listed()

        monkeypatch.setattr(persistence, "list", list_later)
        status = (await service.client.get(f"{SESSIONS}/one")).json
        assert (status["status"], status["pending"]) == ("idle", [])
        assert status["lastTurn"] == {"turn": 1, "end": "completed"}


async def test_a_status_is_complete(project: Project) -> None:
    """E-181, E-182: What follows its cursor is what comes after its history, live or not."""
    async with run_service(project, say("One."), say("Two.")) as service:
        await service.client.send("Hi", sessionId="one")
        live = (await service.client.get(f"{SESSIONS}/one")).json
        assert set(live) == {
            *("sessionId", "status", "history", "pending", "children", "lastTurn"),
            *("cursor", "usage"),
        }
        assert live["lastTurn"] == {"turn": 1, "end": "completed"}
        assert live["usage"]["requests"] == 1
        assert [message["role"] for message in live["history"]][-1] == "assistant"
        await at_rest(service)
        (agent,) = service.ctx[Agents].list()
        await service.ctx[AgentFolders].release(agent)
        stored = (await service.client.get(f"{SESSIONS}/one")).json
        assert stored == live
        assert service.ctx[Agents].list() == (), "nothing was loaded for it"
        second = await service.client.send("And?", sessionId="one")
        path = f"{SESSIONS}/one/events?follow=turn&after={stored['cursor']}"
        async with service.client.stream("GET", path) as stream:
            assert [f.data for f in await stream.events()] == second.json["events"]


async def test_sessions_of_subagents_are_found_below_their_parent(project: Project) -> None:
    """E-181, E-445: Their events are read there, and only there."""
    async with run_service(project, say("One.")) as service:
        await service.client.send("Hi", sessionId="one")
        meta = SessionMeta(parent_session=ONE, origin="subagent", agent_preset="helper")
        child = service.ctx[Sessions].create("child-1", meta=meta)
        grandchild = SessionMeta(parent_session="child-1", origin="subagent")
        service.ctx[Sessions].create("child-2", meta=grandchild)
        service.ctx[Sessions].create("stranger")
        child.append("turn/start", {"turn": 1})
        child.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        status = (await service.client.get(f"{SESSIONS}/one")).json
        assert status["children"] == [{"sessionId": "child-1", "agent": "helper", "status": "idle"}]
        events = "events?after=0&follow=turn"
        path = f"{SESSIONS}/one/children/child-1/{events}"
        async with service.client.stream("GET", path) as stream:
            assert [f.event for f in await stream.events()] == ["session", "loop:done", "done"]
        below = await service.client.get(f"{SESSIONS}/one/children/child-2/{events}")
        assert below.status == 204
        stranger = await service.client.get(f"{SESSIONS}/one/children/stranger/{events}")
        assert stranger.code == "404 unknown_session"


async def test_a_cancelled_stream_keeps_what_was_said(project: Project) -> None:
    """E-183, E-187: Both who cancel are answered; the first cause stays."""
    slow = reply(say("Some text"), pause("here"))
    async with (
        run_service(project, slow) as service,
        service.client.stream("POST", STREAM, HI) as stream,
        anyio.create_task_group() as group,
    ):
        await service.model.reached("here")
        answers: list[Reply] = []

        async def cancel() -> None:
            answers.append(await service.client.post(f"{SESSIONS}/one/cancel", {}))

        group.start_soon(cancel)
        group.start_soon(cancel)
        assert (await stream.events())[-1].data == {"type": "error", "error": "aborted: user"}
        await until(lambda: len(answers) == 2)
        assert [each.json["cancelled"] for each in answers] == [True, True]
        await at_rest(service)
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        assert [m.text for m in agent.session.derive_messages()][-1] == "Some text"


async def test_a_cancelled_tool_is_awaited(project: Project) -> None:
    """E-184: The body has ended when the cancel is answered."""
    began, ended = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            ended.set()
        return "never"

    async with run_service(project, call("wait")) as service:
        service.ctx[Tools].register(wait)
        async with service.client.stream("POST", STREAM, HI) as stream:
            await began.wait()
            cancelled = await service.client.post(f"{SESSIONS}/one/cancel", {"wait": True})
            assert cancelled.json == {"cancelled": True, "sessionId": "one"}
            assert ended.is_set()
            last = (await stream.events())[-2:]
        assert [frame.event for frame in last] == ["tool:result", "error"]
        assert last[0].data["statusText"] == "Cancelled."


async def test_cancelling_closes_the_open_item(seller: Project) -> None:
    """E-185: A later decision hears how it ended."""
    async with run_service(seller, call("sell", item="hat")) as service:
        asked = await service.client.send("Hi", sessionId="one")
        await service.client.post(f"{SESSIONS}/one/cancel", {})
        late = await service.client.post(asked.json["approveUrl"])
        assert late.code == "404 already_decided"
        assert late.json["outcome"] == "cancelled"
        assert late.json["decidedAt"].endswith("Z")
        assert (await service.client.get(f"{SESSIONS}/one")).json["pending"] == []


async def test_an_idle_session_has_nothing_to_cancel(project: Project) -> None:
    """E-186: Live or not; the log stays as it is."""
    async with run_service(project, say("One.")) as service:
        await service.client.send("Hi", sessionId="one")
        await at_rest(service)
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        length = len(agent.session.events)
        idle = await service.client.post(f"{SESSIONS}/one/cancel")
        assert idle.json == {"cancelled": False, "sessionId": "one"}
        assert len(agent.session.events) == length
        await service.ctx[AgentFolders].release(agent)
        stored = await service.client.post(f"{SESSIONS}/one/cancel", {})
        assert stored.json == {"cancelled": False, "sessionId": "one"}


async def test_messages_that_wait_may_be_kept_when_a_turn_is_cancelled(project: Project) -> None:
    """E-188: They run when the next message wakes the agent, in front of it."""
    slow = reply(pause("here"))
    async with (
        run_service(project, slow, say("Kept."), say("Last.")) as service,
        service.client.stream("POST", STREAM, HI) as first,
        service.client.stream("POST", STREAM, HI) as kept,
    ):
        await service.model.reached("here")
        await service.client.post(f"{SESSIONS}/one/cancel", {"keepInbox": True})
        assert (await first.events())[-1].event == "error"
        await at_rest(service)
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        assert len(agent.inbox.next_turn) == 1
        last = await service.client.send("And?", sessionId="one")
        assert last.json["text"] == "Last."
        assert (await kept.events())[-1].data["text"] == "Kept."


async def test_a_session_is_deleted_for_good(project: Project) -> None:
    """E-189: Live or only stored; not while a turn runs."""
    slow = reply(pause("here"), say("One."))
    async with run_service(project, slow, say("Two."), say("Fresh.")) as service:
        async with service.client.stream("POST", STREAM, HI):
            await service.model.reached("here")
            busy = await service.client.request("DELETE", f"{SESSIONS}/one")
            assert busy.code == "409 session_busy"
            service.model.release("here")
            await at_rest(service)
        await service.client.send("Hi", sessionId="two")
        await at_rest(service, "two")
        two = service.ctx[Agents].get("default:production:shop:two")
        assert two is not None
        await service.ctx[AgentFolders].release(two)
        for name in ("one", "two"):
            deleted = await service.client.request("DELETE", f"{SESSIONS}/{name}")
            assert (deleted.status, deleted.body) == (204, b"")
            gone = await service.client.get(f"{SESSIONS}/{name}")
            assert gone.code == "404 unknown_session"
        assert list((project.root / ".terret/sessions").rglob("*.jsonl")) == []
        fresh = await service.client.send("Hi", sessionId="one")
        assert fresh.json["text"] == "Fresh."
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        ends = [event for event in agent.session.events if isinstance(event.view, TurnEnd)]
        assert len(ends) == 1


async def test_a_damaged_session_can_be_deleted(project: Project) -> None:
    """E-189: And the id is free again."""
    async with run_service(project, say("One."), say("Fresh.")) as service:
        await service.client.send("Hi", sessionId="one")
        await at_rest(service)
        (agent,) = service.ctx[Agents].list()
        await service.ctx[AgentFolders].release(agent)
        (log,) = (project.root / ".terret/sessions").rglob("*.jsonl")
        first, _, *rest = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join((first, b"{\n", *rest)))
        assert (await service.client.get(f"{SESSIONS}/one")).code == "500 internal"
        assert (await service.client.request("DELETE", f"{SESSIONS}/one")).status == 204
        again = await service.client.request("DELETE", f"{SESSIONS}/one")
        assert again.code == "404 unknown_session"
        assert (await service.client.send("Hi", sessionId="one")).json["text"] == "Fresh."


async def test_different_sessions_run_side_by_side(project: Project) -> None:
    """E-493."""
    slow = reply(pause("here"), say("One."))
    async with (
        run_service(project, slow, say("Two.")) as service,
        service.client.stream("POST", STREAM, HI) as one,
    ):
        await service.model.reached("here")
        assert (await service.client.send("Hi", sessionId="two")).json["text"] == "Two."
        service.model.release("here")
        assert (await one.events())[-1].data["text"] == "One."
