"""What is refused, how it is told, and that nothing happens then."""

import json
from pathlib import Path

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent_projects import Project
from http_apps import ONE, SERVICE, Service, run_service
from terret_agents import Agents
from terret_context import INTERNAL_ERROR, ContainedError
from terret_plugin_agent_folders import AgentFolders
from terret_plugin_http import Http
from terret_plugin_loop_events import LoopEvents
from terret_testing import fail, pause, reply, say

MESSAGES = "/agents/shop/messages"


def untouched(service: Service) -> bool:
    """Tells whether no agent was made and the model was not asked."""
    return not service.ctx[Agents].list() and not service.model.requests


BAD_MESSAGES = (
    (b"{", "400 bad_json"),
    (b"", "400 bad_message"),
    (b"[1]", "400 bad_json"),
    (b'"text"', "400 bad_json"),
    (b'{"message": "\xff"}', "400 bad_json"),
    ('{"message": "\u00e9"}'.encode("utf-16"), "400 bad_json"),
    (b'{"message": "hi", "n": NaN}', "400 bad_json"),
    (b'{"message": "\\ud800"}', "400 bad_json"),
    (b"[" * 100_000, "400 bad_json"),
    (b'{"message": "hi", "n": %b1%b}' % (b"[" * 189, b"]" * 189), "400 bad_json"),
    (b"{}", "400 bad_message"),
    (b'{"message": " \\n"}', "400 bad_message"),
    (b'{"message": 1}', "400 bad_message"),
    (b'{"message": null}', "400 bad_message"),
    (b'{"message": "hi", "whenBusy": "now"}', "400 bad_message"),
    (b'{"message": "hi", "messageId": ""}', "400 bad_message"),
    (b'{"message": "hi", "sessionId": ""}', "400 bad_session_id"),
    (b'{"message": "hi", "sessionId": "a\\u0007"}', "400 bad_session_id"),
    (b'{"message": "hi", "sessionId": 7}', "400 bad_session_id"),
    (json.dumps({"message": "hi", "sessionId": "x" * 201}).encode(), "400 bad_session_id"),
)


async def test_a_bad_message_is_refused(project: Project) -> None:
    """E-160, E-161, E-162, E-170: Plain and streamed alike, before anything is started."""
    async with run_service(project) as service:
        for body, code in BAD_MESSAGES:
            for path in (MESSAGES, f"{MESSAGES}/stream"):
                refused = await service.client.post(path, body)
                assert refused.code == code, body
                assert refused.headers["content-type"] == "application/json"
        assert untouched(service)


async def test_what_is_not_there_is_not_found(project: Project) -> None:
    """E-163, E-164: Agents, sessions, items, routes; methods are named."""
    async with run_service(project) as service:
        client = service.client
        assert (await client.send("Hi", agent="nobody")).code == "404 unknown_agent"
        for path in ("", "/events", "/approvals", "/questions"):
            missing = await client.get(f"/agents/shop/sessions/none{path}")
            assert missing.code == "404 unknown_session", path
        cancel = await client.post("/agents/shop/sessions/none/cancel", {})
        assert cancel.code == "404 unknown_session"
        deleted = await client.request("DELETE", "/agents/shop/sessions/none")
        assert deleted.code == "404 unknown_session"
        assert (await client.get("/agents/nobody/sessions")).code == "404 unknown_agent"
        assert (await client.post("/approvals/none/approve")).code == "404 unknown_item"
        answer = await client.post("/questions/none/answer", {"answer": "yes"})
        assert answer.code == "404 unknown_item"
        assert (await client.get("/nowhere")).code == "404 not_found"
        assert (await client.get("/agents/%FF/sessions")).code == "404 not_found"
        wrong = await client.request("PUT", "/agents/shop/sessions/one")
        assert wrong.code == "405 method"
        assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "DELETE"}
        assert untouched(service)


async def test_bodies_are_limited_and_typed(project: Project) -> None:
    """E-165: Announced or not, a body is not read beyond the limit."""
    async with run_service(project, http="{maxBodyBytes: 100}") as service:
        big = json.dumps({"message": "x" * 100}).encode()
        for headers in ({}, {"content-length": str(len(big))}):
            refused = await service.client.post(MESSAGES, big, headers=headers)
            assert refused.code == "413 too_large"
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            headers = {"content-type": kind}
            refused = await service.client.post(MESSAGES, b'{"message": "hi"}', headers=headers)
            assert refused.code == "415 media_type"
        assert untouched(service)


async def test_a_failed_turn_is_told_with_its_events(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """E-166, E-132, E-169, E-495: The message stays, and the log has the id of the error."""
    broken = fail("SERVER_ERROR", "the provider is down")
    async with run_service(project, broken, say("Again.")) as service:
        failed = await service.client.send("Hi", sessionId="one")
        assert failed.code == "500 turn_failed"
        assert failed.json["sessionId"] == "one"
        assert failed.types == ["session", "budget:check", "error"]
        assert failed.json["error"] == failed.json["events"][-1]["error"]
        assert failed.headers["terret-session-id"] == "one"
        assert failed.json["errorId"] in caplog.text
        again = await service.client.send("And now?", sessionId="one")
        assert (again.status, again.json["text"]) == (200, "Again.")
        status = await service.client.get("/agents/shop/sessions/one")
        texts = [m["content"][0]["text"] for m in status.json["history"] if m["role"] == "user"]
        assert texts[0] == "Hi"


async def test_a_cancelled_turn_is_a_conflict(project: Project) -> None:
    """E-167."""
    slow = reply(say("Some"), pause("here"))
    async with run_service(project, slow) as service, anyio.create_task_group() as group:

        async def send() -> None:
            cancelled = await service.client.send("Hi", sessionId="one")
            assert cancelled.code == "409 aborted"
            assert cancelled.json["error"] == "aborted: user"
            assert cancelled.types == ["session", "budget:check", "error"]

        group.start_soon(send)
        await service.model.reached("here")
        await service.client.post("/agents/shop/sessions/one/cancel", {})


async def test_more_turns_than_allowed_are_refused(project: Project) -> None:
    """E-168: A message for a session that runs one is no further turn."""
    slow = reply(pause("here"), say("One."))
    limit = "{maxConcurrentTurns: 1}"
    async with (
        run_service(project, slow, say("Two."), http=limit) as service,
        service.client.stream(
            "POST", f"{MESSAGES}/stream", {"message": "1", "sessionId": "one"}
        ) as turn,
    ):
        await service.model.reached("here")
        refused = await service.client.send("2", sessionId="two")
        assert refused.code == "429 too_many_turns"
        assert refused.headers["retry-after"] == "1"
        assert [agent.id for agent in service.ctx[Agents].list()] == [ONE]
        async with service.client.stream(
            "POST", f"{MESSAGES}/stream", {"message": "2", "sessionId": "one"}
        ) as queued:
            service.model.release("here")
            assert (await turn.events())[-1].data["text"] == "One."
            assert (await queued.events())[-1].data["text"] == "Two."


async def test_an_unexpected_fault_is_kept_in_the_log(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-171, E-169: The caller gets an id, not the fault; the service goes on."""
    async with run_service(project, say("One."), say("Two.")) as service:
        contained: list[ContainedError] = []
        service.ctx.on(INTERNAL_ERROR, contained.append)

        def broken(*args: object, **kwargs: object) -> None:
            raise RuntimeError("secret of /etc/passwd")

        with monkeypatch.context() as patch:
            patch.setattr(LoopEvents, "recall", broken)
            failed = await service.client.send("Hi", sessionId="one")
        assert failed.code == "500 internal"
        assert "secret" not in failed.body.decode()
        (error,) = contained
        assert failed.json["errorId"] in error.label
        assert "secret" in str(error.error)
        assert (await service.client.send("Hi", sessionId="one")).json["text"] == "Two."


async def test_a_session_of_another_process_is_busy(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-501: Its status can be read all the same."""
    at_once = "session-jsonl: {leaseWaitSeconds: 0}"
    monkeypatch.setattr("http_apps.SERVICE", SERVICE.replace("session-jsonl: {}", at_once))
    async with run_service(project, say("One.")) as first, run_service(project) as second:
        await first.client.send("Hi", sessionId="one")
        refused = await second.client.send("Hi", sessionId="one")
        assert refused.code == "409 session_busy"
        status = await second.client.get("/agents/shop/sessions/one")
        assert status.json["lastTurn"]["end"] == "completed"


async def test_a_hook_that_returns_nonsense_is_a_fault_of_the_agent(project: Project) -> None:
    """E-171: Nothing is guessed."""
    project.write({"agents/shop/hooks.py": "def tenant_for(headers):\n    return 7\n"})
    project.agent("shop", "systemPrompt: Sell.\ntenantFor: hooks.py:tenant_for")
    async with run_service(project) as service:
        assert (await service.client.send("Hi")).code == "500 internal"
        assert untouched(service)


async def test_an_agent_that_is_invalid_is_unavailable(project: Project) -> None:
    """E-172: Others work, and the paths of its files are not told."""
    project.agent("desk", "nonsense: true")
    async with run_service(project, say("Hello.")) as service:
        refused = await service.client.send("Hi", agent="desk")
        assert refused.code == "503 agent_unavailable"
        assert "/" not in refused.json["error"]
        assert (await service.client.send("Hi")).status == 200
        agents = (await service.client.get("/agents")).json["agents"]
        assert {each["name"]: each["status"] for each in agents} == {
            "desk": "unavailable",
            "shop": "ok",
        }


async def test_a_damaged_log_is_named_and_left_alone(project: Project) -> None:
    """E-503: Other sessions are fine."""
    async with run_service(project, say("One."), say("Two.")) as service:
        await service.client.send("Hi", sessionId="one")
        (agent,) = service.ctx[Agents].list()
        await agent.when_idle()
        await service.ctx[AgentFolders].release(agent)
        (path,) = (project.root / ".terret/sessions").rglob("*.jsonl")
        rows = path.read_text("utf-8").splitlines(keepends=True)
        damaged = "".join([*rows[:3], "{nonsense}\n", *rows[4:]])
        path.write_text(damaged, "utf-8")
        for refused in (
            await service.client.send("Hi", sessionId="one"),
            await service.client.get("/agents/shop/sessions/one"),
        ):
            assert refused.code == "500 internal"
            assert refused.json["sessionId"] == "one"
            assert "line 4" in refused.json["error"]
            assert str(Path.home()) not in refused.json["error"]
            assert ".jsonl" not in refused.json["error"]
        assert path.read_text("utf-8") == damaged
        assert (await service.client.send("Hi", sessionId="two")).status == 200


async def test_further_routes_are_served_as_long_as_their_plugin_runs(project: Project) -> None:
    """A plugin adds pages through the service; it takes them along when it ends."""

    async def page(request: Request) -> JSONResponse:
        return JSONResponse({"page": True})

    async with run_service(project) as service:
        routes = service.ctx[Http].mount([Route("/playground", page)])
        assert (await service.client.get("/playground")).json == {"page": True}
        assert (await service.client.get("/healthz")).status == 200
        routes.close()
        assert (await service.client.get("/playground")).code == "404 not_found"
