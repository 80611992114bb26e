"""Tenants: whose sessions and items a request may see."""

import pytest

from agent_projects import Project
from http_apps import SELL, run_service
from terret_agents import Agents
from terret_testing import call, say

SHOP = """
systemPrompt: Sell things.
permissions: {default: ask, rules: []}
tenantFor: hooks.py:tenant_for
"""
HOOKS = """
async def tenant_for(headers):
    return headers.get("x-tenant")
"""
MESSAGES = "/agents/shop/messages"
A = {"x-tenant": "acme"}
B = {"x-tenant": "bolt"}


@pytest.fixture
def shop(project: Project) -> Project:
    """The agent reads the tenant from a header and asks people."""
    project.agent("shop", SHOP)
    project.write({"agents/shop/hooks.py": HOOKS, "agents/shop/tools/sell.py": SELL})
    return project


async def test_tenants_do_not_see_each_other(shop: Project) -> None:
    """E-220, E-223, E-226: The same id is another session for each; the body does not decide."""
    async with run_service(shop, say("For A."), say("For B.")) as service:
        client = service.client
        body = {"message": "Hi", "sessionId": "one", "tenant": "acme"}
        assert (await client.post(MESSAGES, body, headers=A)).json["text"] == "For A."
        assert (await client.post(MESSAGES, body, headers=B)).json["text"] == "For B."
        ids = {agent.id for agent in service.ctx[Agents].list()}
        assert ids == {"acme:production:shop:one", "bolt:production:shop:one"}
        for headers, text in ((A, "For A."), (B, "For B.")):
            status = await client.get("/agents/shop/sessions/one", **headers)
            assert status.json["history"][-1]["content"][0]["text"] == text
            sessions = (await client.get("/agents/shop/sessions", **headers)).json["sessions"]
            assert [entry["sessionId"] for entry in sessions] == ["one"]


async def test_a_session_of_another_tenant_is_unknown(shop: Project) -> None:
    """E-226, E-180: On every route; it is untouched."""
    async with run_service(shop, say("For A.")) as service:
        client, path = service.client, "/agents/shop/sessions/one"
        body = {"message": "Hi", "sessionId": "one"}
        await client.post(MESSAGES, body, headers=A)
        replies = [
            await client.get(path, **B),
            await client.get(f"{path}/events", **B),
            await client.post(f"{path}/cancel", {}, headers=B),
            await client.request("DELETE", path, headers=B),
            await client.get(f"{path}/approvals", **B),
        ]
        assert [reply.code for reply in replies] == ["404 unknown_session"] * 5
        assert (await client.get("/agents/shop/sessions", **B)).json == {"sessions": []}
        assert (await client.get(path, **A)).status == 200


async def test_an_item_of_another_tenant_is_unknown(shop: Project) -> None:
    """E-224, E-225: Open or decided; the lists are exact."""
    async with run_service(shop, call("sell", item="hat"), say("Sold.")) as service:
        client = service.client
        body = {"message": "Hi", "sessionId": "one"}
        asked = await client.post(MESSAGES, body, headers=A)
        never = (await client.post("/approvals/none/approve", headers=B)).body
        never = never.replace(b"none", asked.json["id"].encode())
        assert b"unknown_item" in never
        for url in (asked.json["approveUrl"], asked.json["denyUrl"]):
            refused = await client.post(url, headers=B)
            assert (refused.status, refused.body) == (404, never)
        assert (await client.get("/agents/shop/approvals", **B)).json == {"approvals": []}
        (item,) = (await client.get("/agents/shop/approvals", **A)).json["approvals"]
        assert item["scope"]["tenant"] == "acme"
        decided = await client.post(asked.json["approveUrl"], headers=A)
        assert decided.json["text"] == "Sold."
        late = await client.post(asked.json["approveUrl"], headers=B)
        assert (late.status, late.body) == (404, never)
        late = await client.post(asked.json["approveUrl"], headers=A)
        assert late.code == "404 already_decided"


async def test_a_request_without_tenant_has_no_effect(shop: Project) -> None:
    """E-221, E-222: Nor has one whose tenant would be more than a name."""
    async with run_service(shop) as service:
        client = service.client
        unknown = await client.send("Hi")
        assert unknown.code == "401 unknown_tenant"
        for tenant in ("a/b", "*", "a?", "[a]", "a:b", "a\x7f", "", "x" * 101):
            refused = await client.post(MESSAGES, {"message": "Hi"}, headers={"x-tenant": tenant})
            assert refused.code == "400 bad_tenant", tenant
        assert service.ctx[Agents].list() == ()


async def test_a_token_fixes_the_tenant(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-211, E-220: Whatever the headers say."""
    monkeypatch.setenv("BOLT", "bolt-secret")
    http = "{auth: {tokens: [{env: BOLT, roles: [chat, decide], tenant: bolt}]}}"
    async with run_service(shop, call("sell", item="hat"), say("Sold."), http=http) as service:
        client = service.client
        client.headers["authorization"] = "Bearer bolt-secret"
        body = {"message": "Hi", "sessionId": "one"}
        asked = await client.post(MESSAGES, body, headers=A)
        assert asked.json["scope"]["tenant"] == "bolt"
        (agent,) = service.ctx[Agents].list()
        assert agent.id == "bolt:production:shop:one"
        assert (await client.post(asked.json["approveUrl"])).status == 200


async def test_a_tenant_of_the_settings_is_a_name_too(shop: Project) -> None:
    """E-222."""
    http = "{auth: {tokens: [{env: BOLT, roles: [chat], tenant: a/b}]}}"
    with pytest.raises(Exception, match="tenant"):
        async with run_service(shop, http=http):
            pass
