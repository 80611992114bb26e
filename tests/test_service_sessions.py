"""Sessions of a service: whose they are, who has them, and what a crash leaves of them."""

import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from served_projects import served_project, write_project
from terret_client import Answer, ApiError, ApprovalPending, TerretClient
from terret_llm import GenerateOptions
from terret_plugin_loop_events import LoopEvents
from terret_plugin_session_jsonl import JsonlStorage
from terret_sessions import SessionEvent, SessionHeader, SessionKey, Sessions
from terret_testing import Part, ScriptedModel, say
from terret_tools import Tools
from turn_plans import Plan, add_tools, model_of

IDS = ["a", "A", "a:b", "a/b", "a%2Fb", "a b", ".", "..", "../a", "%", "ä", "a\u0308", "~a"]
IDS += ["x" * 200, "x" * 199 + "y", "x" * 199 + "Y"]
STORES = {"jsonl": "", "sqlite": "  session-jsonl: null\n  session-sqlite: {}\n"}
ASK = """
  permissions: {audit: "off", rules: [{tool: ask, decision: ask}, {tool: "*", decision: allow}]}
  session-jsonl: {leaseWaitSeconds: 0}
"""


def echo(request: GenerateOptions) -> Part:
    return say(f"You said {request.messages[-1].text}.")


def texts(history: Sequence[Mapping[str, Any]]) -> list[str]:
    return [message["content"][0]["text"] for message in history]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("store", STORES)
async def test_every_id_has_a_conversation_of_its_own(store: str, tmp_path: Path) -> None:
    """E-490, E-492, E-502: Whatever it is made of, also after a restart."""
    desk = {"agents/desk/agent.yml": "systemPrompt: Help.\n"}
    root = write_project(tmp_path / "p", desk, STORES[store])
    keys = [(agent, id) for agent in ("shop", "desk") for id in IDS]
    model = ScriptedModel(*[echo] * len(keys))
    async with served_project(root, model) as served, served.client() as client:
        for agent, id in keys:
            reply = await client.send_message(agent, f"{agent} {id}", session_id=id)
            assert reply.session_id == id
    async with served_project(root) as served, served.client() as client:
        for agent, id in keys:
            state = await client.get_session_history(agent, id)
            assert state.session_id == id
            assert texts(state.history) == [f"{agent} {id}", f"You said {agent} {id}."]
        page = await client.list_sessions("desk")
        assert {each.session_id for each in page.sessions} == set(IDS)
    assert sorted(os.listdir(tmp_path)) == ["p"]
    assert sorted(os.listdir(root)) == [".terret", "agents", "harness.yml"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_session_that_another_service_has_is_busy(tmp_path: Path) -> None:
    """E-499, E-501: Until that service lets it go; other sessions are free."""
    root = write_project(tmp_path, more=ASK)
    model = ScriptedModel(*[echo] * 2)
    async with served_project(root, model) as second, second.client() as late:
        async with (
            served_project(root, model_of(Plan([["ask"]], []))) as first,
            first.client() as client,
        ):
            add_tools(first.ctx[Tools])
            reply = await client.send_message("shop", "go", session_id="s")
            assert isinstance(reply, ApprovalPending)
            with pytest.raises(ApiError) as refused:
                await late.send_message("shop", "hi", session_id="s")
            assert (refused.value.status, refused.value.code) == (409, "session_busy")
            assert isinstance(await late.send_message("shop", "hi", session_id="t"), Answer)
            assert isinstance(await client.approve_call(reply.id), Answer)
        reply = await late.send_message("shop", "hi", session_id="s")
        assert isinstance(reply, Answer)
        assert reply.text == "You said hi."


async def test_a_crash_at_any_place_of_the_log_closes_the_turn(tmp_path: Path) -> None:
    """E-496: What clients were told stays, then comes `error`; no call is without a result."""
    root = write_project(tmp_path, more=ASK)
    header, log, outputs = await recorded(root)
    for length in range(1, len(log) + 1):
        await store(root, header, log[:length])
    async with served_project(root) as served, served.client() as client:
        for length in range(1, len(log) + 1):
            id, told = str(length), [event for seq, event in outputs if seq < length]
            if told and told[-1]["type"] != "done":
                told.append({"type": "error", "error": "interrupted"})
            stream = client.stream_events("shop", id, after="0")
            async with aclosing(stream) as events:
                seen = [{**event.data} async for event in events]
            assert [
                {**event, "sessionId": id} if "sessionId" in event else event for event in told
            ] == seen
            await every_call_has_a_result(client, id, log[:length])


async def every_call_has_a_result(
    client: TerretClient, id: str, log: Sequence[SessionEvent]
) -> None:
    """The model is told of each call what it gave, that it did not run, or that nobody knows."""
    rows: list[tuple[str, Any]] = [(event.type, event.data) for event in log]
    begun = {data["callId"] for type, data in rows if type == "tool/call"}
    decided = {data["id"] for type, data in rows if type == "approval/decided"}
    asked = [data for type, data in rows if type == "approval/asked"]
    waiting = {data["callId"] for data in asked if data["id"] not in decided}
    known = {data["message"]["source"]["callId"] for type, data in rows if type == "tool/result"}
    history = (await client.get_session_history("shop", id)).history
    blocks = [block for message in history for block in message["content"]]
    results = {each["toolCallId"]: str(each) for each in blocks if each["type"] == "tool-result"}
    for call in {each["id"] for each in blocks if each["type"] == "tool-call"} - known:
        told = "unknown" if call in begun - waiting else "did not run"
        assert told in results[call]


async def recorded(root: Path) -> tuple[SessionHeader, list[SessionEvent], list[tuple[int, Any]]]:
    """A turn with calls that run, fail and are asked about; its events, each with its seq."""
    plan = Plan([["good", "ask", "fail"], ["forbidden"]], [])
    async with served_project(root, model_of(plan)) as served, served.client() as client:
        add_tools(served.ctx[Tools])
        reply = await client.send_message("shop", "go", session_id="whole")
        assert isinstance(reply, ApprovalPending)
        await client.approve_call(reply.id)
        (session,) = served.ctx[Sessions].list()
        projected = served.ctx[LoopEvents].project(session.events, session_id="s", agent="shop")
        outputs = [(each.cursor.seq, each.event) for each in projected]
        return session.header, list(session.events), outputs


async def store(root: Path, header: SessionHeader, log: Sequence[SessionEvent]) -> None:
    """Stores the beginning of a log as a session that is named by its length."""
    id = str(replace(SessionKey.parse(header.id), raw_id=str(len(log))))
    storage = JsonlStorage(root / ".terret" / "sessions")
    await storage.acquire(id)
    await storage.append_batch(replace(header, id=id), log, materialized=True)
    await storage.close()
