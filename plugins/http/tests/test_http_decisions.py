"""Approvals and questions over HTTP."""

import anyio
import pytest

from agent_projects import Project
from http_apps import ONE, Reply, run_service
from terret_agents import Agents
from terret_testing import call, say

SHOP = """
systemPrompt: Sell things.
permissions:
  default: ask
  rules:
    - {name: editable, tool: sell, decision: ask, editable: true}
    - {name: no-gold, tool: sell, decision: deny, when: [{field: item, op: eq, value: gold}]}
"""
TOOLS = """
from terret_tools import tool

@tool
def sell(item: str) -> str:
    \"\"\"Sells something.\"\"\"
    return f"sold {item}"

@tool
def give(item: str) -> str:
    \"\"\"Gives something.\"\"\"
    return f"gave {item}"
"""


@pytest.fixture
def shop(project: Project) -> Project:
    """The agent asks people; arguments of `sell` may be changed."""
    project.agent("shop", SHOP)
    project.write({"agents/shop/tools/tools.py": TOOLS})
    return project


async def test_what_waits_is_listed(shop: Project) -> None:
    """E-343, E-370: For the agent and for the session; exactly what is open."""
    calls = (call("sell", item="hat"), call("system_ask_user", question="Which?", options=["a"]))
    async with run_service(shop, *calls, say("Done.")) as service:
        client = service.client
        asked = await client.send("Hi", sessionId="one")
        for path in ("/agents/shop/approvals", "/agents/shop/sessions/one/approvals"):
            (item,) = (await client.get(path)).json["approvals"]
            assert set(item) == {
                *("id", "sessionId", "tool", "args", "scope", "reason", "requestedAt"),
                *("callId", "editable", "expiresAt"),
            }
            assert (item["id"], item["sessionId"]) == (asked.json["id"], "one")
            assert (item["tool"], item["editable"]) == ("sell", True)
        assert (await client.get("/agents/shop/questions")).json == {"questions": []}
        question = await client.post(asked.json["approveUrl"])
        assert (await client.get("/agents/shop/approvals")).json == {"approvals": []}
        for path in ("/agents/shop/questions", "/agents/shop/sessions/one/questions"):
            (item,) = (await client.get(path)).json["questions"]
            assert (item["question"], item["options"]) == ("Which?", ["a"])
            assert (item["agent"], item["sessionId"]) == ("shop", "one")
        await client.post(question.json["answerUrl"], {"answer": "a"})
        assert (await client.get("/agents/shop/questions")).json == {"questions": []}


async def test_lists_are_those_of_one_agent_or_one_session(shop: Project) -> None:
    """E-225."""
    shop.agent("desk", SHOP)
    shop.write({"agents/desk/tools/tools.py": TOOLS})
    async with run_service(shop, *[call("give", item="hat")] * 3) as service:
        client = service.client
        ids = {}
        for agent, session in (("shop", "one"), ("shop", "two"), ("desk", "one")):
            asked = await client.send("Hi", agent=agent, sessionId=session)
            ids[agent, session] = asked.json["id"]

        async def listed(path: str) -> set[str]:
            items = (await client.get(f"/agents/{path}approvals")).json["approvals"]
            return {item["id"] for item in items}

        assert await listed("shop/") == {ids["shop", "one"], ids["shop", "two"]}
        assert await listed("desk/") == {ids["desk", "one"]}
        for agent, session in ids:
            assert await listed(f"{agent}/sessions/{session}/") == {ids[agent, session]}


async def test_a_call_is_approved_with_other_arguments(shop: Project) -> None:
    """E-350: They run, and everybody sees them."""
    async with run_service(shop, call("sell", item="hat"), say("Sold.")) as service:
        asked = await service.client.send("Hi", sessionId="one")
        ended = await service.client.post(asked.json["approveUrl"], {"args": {"item": "coat"}})
        (started,) = [e for e in ended.json["events"] if e["type"] == "tool:started"]
        assert started["args"] == {"item": "coat"}
        assert any("sold coat" in str(event) for event in ended.json["events"])


async def test_an_answer_may_hold_for_the_rest_of_the_session(shop: Project) -> None:
    """Equal calls are not asked about again; others are."""
    calls = (call("sell", item="hat"), call("sell", item="hat"), call("sell", item="coat"))
    async with run_service(shop, *calls, say("Sold.")) as service:
        asked = await service.client.send("Hi", sessionId="one")
        other = await service.client.post(asked.json["approveUrl"], {"remember": True})
        assert (other.status, other.json["args"]) == (202, {"item": "coat"})
        assert (await service.client.post(other.json["approveUrl"])).json["text"] == "Sold."


async def test_a_change_that_cannot_be_leaves_the_item_open(shop: Project) -> None:
    """E-351, E-352, E-353, E-372: It may be decided in another way afterwards."""
    calls = (
        call("sell", item="hat"),
        call("give", item="hat"),
        call("system_ask_user", question="?"),
    )
    async with run_service(shop, *calls, say("Done.")) as service:
        client = service.client
        asked = await client.send("Hi", sessionId="one")
        url = asked.json["approveUrl"]
        assert (await client.post(url, {"args": {"item": 7}})).code == "400 invalid_args"
        assert (await client.post(url, {"args": [7]})).code == "400 invalid_args"
        assert (await client.post(url, {"note": 7})).code == "400 bad_json"
        assert (await client.post(url, {"args": {"item": "gold"}})).code == "403 edit_denied"
        given = await client.post(url)
        assert (given.status, given.json["tool"]) == (202, "give")
        url = given.json["approveUrl"]
        assert (await client.post(url, {"args": {"item": "coat"}})).code == "403 not_editable"
        url = (await client.post(url)).json["answerUrl"]
        for blank in ({}, {"answer": " "}, {"answer": 7}):
            assert (await client.post(url, blank)).code == "400 bad_answer"
        assert (await client.post(url, {"answer": "yes"})).json["text"] == "Done."
        assert (await client.post(url, {"answer": "yes"})).code == "404 already_decided"


async def test_of_two_decisions_the_first_counts(shop: Project) -> None:
    """E-337, E-338: The other one hears the outcome, also later."""
    async with run_service(shop, call("sell", item="hat"), say("Done.")) as service:
        asked = await service.client.send("Hi", sessionId="one")
        answers: list[Reply] = []

        async def decide(url: str) -> None:
            answers.append(await service.client.post(asked.json[url]))

        async with anyio.create_task_group() as group:
            group.start_soon(decide, "approveUrl")
            group.start_soon(decide, "denyUrl")
        assert sorted(each.status for each in answers) == [200, 404]
        (lost,) = [each for each in answers if each.status == 404]
        assert lost.code == "404 already_decided"
        late = await service.client.post(asked.json["denyUrl"])
        assert late.json["outcome"] == lost.json["outcome"]
        wrong = await service.client.post(f"/questions/{asked.json['id']}/answer", {"answer": "x"})
        assert wrong.code == "404 unknown_item"


async def test_the_log_names_who_decided(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-342."""
    monkeypatch.setenv("TERRET_API_TOKEN", "secret")
    async with run_service(shop, call("sell", item="hat")) as service:
        service.client.headers["authorization"] = "Bearer secret"
        asked = await service.client.send("Hi", sessionId="one")
        await service.client.post(asked.json["denyUrl"], {"note": "not today"})
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        (decided,) = [e.data for e in agent.session.events if e.type == "approval/decided"]
        assert (decided["by"], decided["note"]) == ("api", "not today")
