"""Where the app runs: below a prefix, in another server, without its neighbours."""

from collections.abc import Sequence

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from agent_projects import Project
from http_apps import SERVICE, Client, run_service
from terret_llm import Llm, ModelInfo
from terret_plugin_agent_folders import AgentFolders
from terret_plugin_loop_events import schema_bytes
from terret_testing import ScriptedModel, call, say


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


async def test_administrators_see_how_it_is_set_up(project: Project) -> None:
    """E-210: Settings of plugins are not shown: they may hold secrets."""
    secret = "plugins: {later: {use: ./later.py, enabled: false, key: s3cret}}"
    project.agent("shop", f"systemPrompt: Sell things.\ndescription: A shop.\n{secret}")
    async with run_service(project) as service:
        client = service.client
        agent = (await client.get("/agents/shop/config")).json
        assert (agent["name"], agent["description"]) == ("shop", "A shop.")
        assert (agent["systemPrompt"], agent["plugins"]) == ("Sell things.", ["later"])
        config = (await client.get("/config")).json
        assert config["environment"] == "production"
        assert {"name": "http", "state": "active"} in config["plugins"]
        assert config["faults"] == []
        assert "s3cret" not in repr((agent, config))
        models = (await client.get("/config/models")).json
        assert models == {"providers": [{"name": "scripted"}]}
        assert (await client.get("/config/gateways")).json == {"sources": []}


async def test_administrators_see_what_is_wrong_with_the_agents(project: Project) -> None:
    """E-210: Also where the last valid definition is still in force."""
    async with run_service(project, say("Hello.")) as service:
        project.agent("shop", "systemPrompt: [bad\n")
        await service.ctx[AgentFolders].reload()
        (fault,) = (await service.client.get("/config")).json["faults"]
        assert fault.startswith("agents/shop/agent.yml:1:15: not valid YAML")
        assert (await service.client.send("Hi")).json["text"] == "Hello."


async def test_the_models_of_a_provider_are_listed(project: Project) -> None:
    """Whatever keeps the provider from it is in the log, not in the answer."""

    class Listing(ScriptedModel):
        async def list_models(self, provider: str) -> Sequence[ModelInfo]:
            return (ModelInfo(id="big", context_window=1000),)

    class Broken(ScriptedModel):
        async def list_models(self, provider: str) -> Sequence[ModelInfo]:
            raise RuntimeError("the key s3cret is not valid")

    async with run_service(project) as service:
        service.ctx[Llm].register_adapter("listing", Listing())
        service.ctx[Llm].register_adapter("broken", Broken())
        client = service.client
        listed = (await client.get("/config/models?provider=listing")).json["models"]
        assert listed == [{"id": "big", "contextWindow": 1000}]
        broken = await client.get("/config/models?provider=broken")
        assert broken.code == "502 gateway"
        assert broken.json["errorId"]
        assert "s3cret" not in broken.body.decode()
        assert (await client.get("/config/models?provider=none")).code == "404 not_found"


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
