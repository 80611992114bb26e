"""Messages, and the answers that say how far their turns are."""

from agent_projects import Project
from http_apps import ASK_ALL, run_service
from terret_testing import call, say


async def test_a_turn_that_ends_is_answered_with_its_text_and_events(project: Project) -> None:
    """E-140, E-132, E-149: A fresh id is in the body and in a header."""
    async with run_service(project, say("Hello.")) as service:
        reply = await service.client.send("Hi")
        assert reply.status == 200
        assert set(reply.json) == {"text", "sessionId", "events", "cursor"}
        assert reply.json["text"] == "Hello."
        assert reply.types == ["session", "budget:check", "loop:done", "done"]
        assert reply.headers["terret-session-id"] == reply.json["sessionId"]
        assert reply.headers["cache-control"] == "no-store"


ASK = {"message": "Sell a hat", "sessionId": "one"}
TOOL = """
from terret_tools import tool

@tool
def sell(item: str) -> str:
    \"\"\"Sells something.\"\"\"
    return f"sold {item}"
"""


async def test_a_turn_that_needs_a_person_is_answered_with_what_is_asked(project: Project) -> None:
    """E-141, E-143, E-131: The events of a 202 are the first of those of the end."""
    project.agent("shop", ASK_ALL)
    project.write({"agents/shop/tools/sell.py": TOOL})
    async with run_service(project, call("sell", item="hat"), say("Sold.")) as service:
        asked = await service.client.post("/agents/shop/messages", ASK)
        assert asked.status == 202
        item = asked.json
        assert (item["pending"], item["type"], item["tool"]) == (True, "approval", "sell")
        assert item["args"] == {"item": "hat"}
        assert item["scope"] == {"tenant": "default", "environment": "production", "agent": "shop"}
        assert item["approveUrl"] == f"/approvals/{item['id']}/approve"
        assert item["denyUrl"] == f"/approvals/{item['id']}/deny"
        assert item["statusUrl"] == "/agents/shop/sessions/one"
        ended = await service.client.post(item["approveUrl"])
        assert (ended.status, ended.json["text"]) == (200, "Sold.")
        assert ended.json["events"][: len(item["events"])] == item["events"]


async def test_a_turn_is_streamed_event_by_event(project: Project) -> None:
    """E-110, E-112, E-130: The stream has the events of the plain answer."""
    async with run_service(project, say("Hello."), say("Hello.")) as service:
        plain = await service.client.send("Hi", sessionId="plain")
        path = "/agents/shop/messages/stream"
        body = {"message": "Hi", "sessionId": "plain"}
        async with service.client.stream("POST", path, body) as stream:
            assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
            frames = await stream.events()
        assert [frame.event for frame in frames] == plain.types
        assert [frame.data["type"] for frame in frames] == plain.types
        places = [tuple(map(int, (frame.id or "").split("."))) for frame in frames]
        assert places == sorted(set(places))
