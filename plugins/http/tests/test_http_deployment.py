"""Where the app runs: below a prefix, in another server, without its neighbours."""

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from agent_projects import Project
from http_apps import SERVICE, Client, run_service
from terret_plugin_loop_events import schema_bytes
from terret_testing import call, say


async def test_below_a_prefix_all_addresses_have_it(seller: Project) -> None:
    """E-544, E-546: Behind a proxy that takes it off or not, and mounted in another app."""
    answers = (call("sell", item="hat"), say("Sold."))
    async with run_service(seller, *answers, *answers, http="{basePath: /api/v1}") as service:
        asked = await service.client.send("Hi", sessionId="a/b")
        assert asked.json["statusUrl"] == "/api/v1/agents/shop/sessions/a%2Fb"
        for address in (asked.json["approveUrl"], asked.json["statusUrl"]):
            assert address.startswith("/api/v1/")
        ended = await service.client.post(asked.json["approveUrl"])
        assert ended.json["text"] == "Sold."
        mounted = Client(Starlette(routes=[Mount("/api/v1", service.client.app)]))
        asked = await mounted.post("/api/v1/agents/shop/messages", {"message": "Hi"})
        assert (await mounted.post(asked.json["approveUrl"])).json["text"] == "Sold."
        assert (await mounted.get("/api/v1/agents/shop/sessions/a%2Fb")).status == 200
        document = (await mounted.get("/api/v1/openapi.json")).json
        assert document["servers"] == [{"url": "/api/v1"}]


async def test_the_schema_of_the_protocol_is_served_as_it_is(project: Project) -> None:
    """E-099."""
    async with run_service(project) as service:
        served = await service.client.get("/protocol/loop-event.schema.json")
        assert served.body == schema_bytes()
        assert served.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "gone",
    ["permissions", "approval", "questions", "tool-decisions", "token-meter", "session-jsonl"],
)
async def test_the_rest_works_without_one_of_the_plugins(
    seller: Project, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-547: Without approval nobody is asked, without storage sessions end with the process."""
    kept = [line for line in SERVICE.splitlines() if not line.startswith(f"  {gone}:")]
    monkeypatch.setattr("http_apps.SERVICE", "\n".join(kept) + "\n")
    async with run_service(seller, call("sell", item="hat"), say("Done.")) as service:
        answer = await service.client.send("Hi", sessionId="one")
        asks = gone not in ("approval", "permissions")
        assert answer.status == (202 if asks else 200)
        if asks:
            answer = await service.client.post(answer.json["approveUrl"])
        assert answer.json["text"] == "Done."
        status = await service.client.get("/agents/shop/sessions/one")
        assert status.json["lastTurn"]["end"] == "completed"
        (entry,) = (await service.client.get("/agents/shop/sessions")).json["sessions"]
        assert entry["sessionId"] == "one"
        assert (await service.client.post("/approvals/none/approve")).code == "404 unknown_item"
        answered = await service.client.post("/questions/none/answer", {"answer": "x"})
        assert answered.code == "404 unknown_item"
        deleted = await service.client.request("DELETE", "/agents/shop/sessions/one")
        assert deleted.status == 204
