"""Messages, and the answers that say how far their turns are."""

import json
from functools import partial

import anyio

from agent_projects import Project
from http_apps import ONE, SELL, Reply, run_service, until
from terret_agents import PROMPT_SUBMIT, Agents, Allow, Block, PromptSubmission
from terret_context import Next
from terret_plugin_http._conversations import Conversation
from terret_plugin_http._turns import reached_by_turn
from terret_plugin_loop_events import check
from terret_sessions import FLUSH, Completed, Session, SessionKey, TurnEnd, TurnStart
from terret_testing import call, fail, pause, reply, say

HOOK = """
def session_id_for(body):
    return body.get("ticket")
"""
MESSAGES = "/agents/shop/messages"


async def test_a_turn_that_ends_is_answered_with_its_text_and_events(project: Project) -> None:
    """E-140, E-132, E-149: A fresh id is in the body and in a header."""
    async with run_service(project, say("Hello.")) as service:
        reply = await service.client.send("Hi")
        assert reply.status == 200
        assert set(reply.json) == {"text", "sessionId", "events", "cursor"}
        assert reply.json["text"] == "Hello."
        assert reply.types == ["session", "budget:check", "loop:done", "done"]
        check(reply.json["events"], agent="shop")
        assert reply.headers["terret-session-id"] == reply.json["sessionId"]
        assert reply.headers["cache-control"] == "no-store"


async def test_a_given_session_id_comes_back_as_it_is(project: Project) -> None:
    """E-149: Also one that is no path segment as it stands."""
    async with run_service(project, say("One."), say("Two.")) as service:
        first = await service.client.send("Hi", sessionId="a/b:1 \u00e9")
        assert first.json["sessionId"] == "a/b:1 \u00e9"
        assert first.json["events"][0]["sessionId"] == "a/b:1 \u00e9"
        status = await service.client.get("/agents/shop/sessions/a%2Fb%3A1%20%C3%A9")
        assert status.json["sessionId"] == "a/b:1 \u00e9"


async def test_a_turn_that_stopped_says_why(project: Project) -> None:
    """E-140: `stopReason` is there for a limit and for a denial."""
    project.agent(
        "shop", "systemPrompt: Sell.\nmaxTurns: 1\npermissions: {default: ask, rules: []}"
    )
    project.write({"agents/shop/tools/sell.py": SELL})
    answers = (call("sell", item="hat"), call("sell", item="hat"))
    async with run_service(project, *answers) as service:
        asked = await service.client.send("Sell", sessionId="one")
        limited = await service.client.post(asked.json["approveUrl"])
        assert (limited.status, limited.json["stopReason"]) == (200, "max_turns")
        asked = await service.client.send("Sell", sessionId="two")
        denied = await service.client.post(asked.json["denyUrl"], {"note": "no"})
        assert (denied.status, denied.json["stopReason"]) == (200, "denied")
        check(denied.json["events"], agent="shop")


async def test_a_turn_that_needs_a_decision_is_answered_with_what_is_asked(seller: Project) -> None:
    """E-141, E-143, E-131, E-147: An empty body with JSON content type is fine."""
    async with run_service(seller, call("sell", item="hat"), say("Sold.")) as service:
        asked = await service.client.send("Sell a hat", sessionId="one")
        assert asked.status == 202
        item = asked.json
        assert (item["pending"], item["type"], item["tool"]) == (True, "approval", "sell")
        assert item["args"] == {"item": "hat"}
        assert item["scope"] == {"tenant": "default", "environment": "production", "agent": "shop"}
        assert item["reason"] == "no rule matched - default"
        assert item["approveUrl"] == f"/approvals/{item['id']}/approve"
        assert item["denyUrl"] == f"/approvals/{item['id']}/deny"
        assert item["statusUrl"] == "/agents/shop/sessions/one"
        json = {"content-type": "application/json"}
        ended = await service.client.post(item["approveUrl"], b"", headers=json)
        assert (ended.status, ended.json["text"]) == (200, "Sold.")
        assert ended.json["events"][: len(item["events"])] == item["events"]


async def test_a_question_is_answered_in_the_same_way(project: Project) -> None:
    """E-142, E-143: The next item comes as the next 202."""
    asks = (
        call("system_ask_user", question="Which?", options=["red", "blue"]),
        call("system_ask_user", question="Sure?"),
        say("Red."),
    )
    async with run_service(project, *asks) as service:
        first = await service.client.send("Buy one", sessionId="one")
        assert (first.status, first.json["type"]) == (202, "question")
        assert (first.json["question"], first.json["options"]) == ("Which?", ["red", "blue"])
        assert not {"tool", "args", "approveUrl", "denyUrl"} & first.json.keys()
        second = await service.client.post(first.json["answerUrl"], {"answer": "red"})
        assert (second.status, second.json["question"]) == (202, "Sure?")
        assert "options" not in second.json
        third = await service.client.post(second.json["answerUrl"], {"answer": "yes"})
        assert (third.status, third.json["text"]) == (200, "Red.")


async def test_a_loop_over_the_family_ends_with_the_answer(seller: Project) -> None:
    """E-143: Send, then approve as long as somebody is needed."""
    calls = [call("sell", item=item) for item in ("hat", "coat", "shoe")]
    async with run_service(seller, *calls, say("All sold.")) as service:
        answer = await service.client.send("Sell all")
        while answer.status == 202:
            answer = await service.client.post(answer.json["approveUrl"])
        assert answer.json["text"] == "All sold."
        check(answer.json["events"], agent="shop")


async def test_a_client_that_knows_the_protocol_alone_gets_along(seller: Project) -> None:
    """E-158, E-115: Send, stream, approve, deny, answer and history, with fields of v1 only."""
    asks = call("system_ask_user", question="Which?")
    answers = (say("Hello."), call("sell", item="hat"), asks, call("sell", item="hat"))
    async with run_service(seller, *answers) as service:
        client, body = service.client, {"message": "Hi", "sessionId": "one"}
        streamed = await client.post(f"{MESSAGES}/stream", body)
        lines = [line for line in streamed.body.decode().split("\n") if line[:6] == "data: "]
        events = [json.loads(line[6:]) for line in lines]
        assert (events[0]["type"], events[-1]["text"]) == ("session", "Hello.")
        pending = (await client.send("Sell a hat", sessionId="one")).json
        asked = (await client.post(pending["approveUrl"])).json
        assert (asked["pending"], asked["type"]) == (True, "question")
        pending = (await client.post(asked["answerUrl"], {"answer": "red"})).json
        denied = await client.post(pending["denyUrl"])
        assert (denied.status, denied.json["stopReason"]) == (200, "denied")
        history = (await client.get("/agents/shop/sessions/one")).json["history"]
        roles = [message["role"] for message in history]
        assert (roles[0], set(roles)) == ("user", {"user", "assistant"})


async def test_a_decision_without_waiting_is_durable_when_it_is_answered(seller: Project) -> None:
    """E-146, E-144: The turn goes on although nobody is connected."""
    slow = reply(pause("here"), say("Sold."))
    async with run_service(seller, call("sell", item="hat"), slow) as service:
        asked = await service.client.send("Sell a hat", sessionId="one")
        taken = await service.client.post(f"{asked.json['approveUrl']}?wait=false")
        assert taken.status == 200
        assert taken.json == {
            "ok": True,
            "sessionId": "one",
            "statusUrl": "/agents/shop/sessions/one",
        }
        stored = next((seller.root / ".terret/sessions").rglob("*.jsonl")).read_text("utf-8")
        assert "approval/decided" in stored
        await service.model.reached("here")
        service.model.release("here")
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        await agent.when_idle()
        status = await service.client.get("/agents/shop/sessions/one")
        assert status.json["lastTurn"] == {"turn": 1, "end": "completed"}


async def test_who_waits_too_long_is_told_so_and_the_turn_goes_on(project: Project) -> None:
    """E-148."""
    slow = reply(pause("here"), say("Done."))
    async with run_service(project, slow, http="{maxWaitSeconds: 0.01}") as service:
        reply_ = await service.client.send("Hi", sessionId="one")
        assert reply_.code == "504 still_running"
        assert reply_.types == ["session", "budget:check"]
        assert reply_.json["statusUrl"] == "/agents/shop/sessions/one"
        path = f"/agents/shop/sessions/one/events?follow=turn&after={reply_.json['cursor']}"
        async with service.client.stream("GET", path) as stream:
            service.model.release("here")
            assert [frame.event for frame in await stream.events()] == ["loop:done", "done"]


async def test_a_hook_decides_the_session(project: Project) -> None:
    """E-150, E-156: It sees all fields; the model does not, the log keeps them."""
    project.write({"agents/shop/hooks.py": HOOK})
    project.agent(
        "shop",
        "systemPrompt: Sell.\nsessionIdFor: hooks.py:session_id_for\n",
    )
    async with run_service(project, say("Hello.")) as service:
        refused = await service.client.send("Hi")
        assert refused.code == "400 bad_session_id"
        assert service.ctx[Agents].list() == ()
        reply_ = await service.client.send("Hi", ticket="t-1", mood="glad")
        assert reply_.json["sessionId"] == "t-1"
        (request,) = service.model.requests
        assert "glad" not in repr(request)
        (agent,) = service.ctx[Agents].list()
        (kept,) = [event.data for event in agent.session.events if event.type == "http/message"]
        assert kept["metadata"] == {"ticket": "t-1", "mood": "glad"}


async def test_a_message_that_is_sent_again_starts_nothing(project: Project) -> None:
    """E-151: Both requests get the turn of the first, also when it has ended."""
    slow = reply(pause("here"), say("Once."))
    async with run_service(project, slow) as service, anyio.create_task_group() as group:
        replies: list[Reply] = []

        async def send() -> None:
            replies.append(await service.client.send("Hi", sessionId="one", messageId="m-1"))

        group.start_soon(send)
        group.start_soon(send)
        await service.model.reached("here")
        service.model.release("here")
        await until(lambda: len(replies) == 2)
        replies.append(await service.client.send("Hi", sessionId="one", messageId="m-1"))
        assert [each.json for each in replies] == [replies[0].json] * 3
        assert replies[0].json["text"] == "Once."


async def test_messages_queue_up_behind_a_turn(project: Project) -> None:
    """E-152: Each gets its own turn, in order."""
    slow = reply(pause("here"), say("One."))
    async with (
        run_service(project, slow, say("Two."), say("Three.")) as service,
        anyio.create_task_group() as group,
    ):
        texts: list[str] = []

        async def send(text: str) -> None:
            texts.append((await service.client.send(text, sessionId="one")).json["text"])

        group.start_soon(send, "1")
        await service.model.reached("here")
        group.start_soon(send, "2")
        await anyio.wait_all_tasks_blocked()
        group.start_soon(send, "3")
        await anyio.wait_all_tasks_blocked()
        service.model.release("here")
        await until(lambda: len(texts) == 3)
        assert texts == ["One.", "Two.", "Three."]


async def test_a_steering_message_joins_the_turn(project: Project) -> None:
    """E-153: Its answer is that turn, from `session` on."""
    slow = reply(pause("here"), say("One."))
    async with (
        run_service(project, slow, say("Both.")) as service,
        anyio.create_task_group() as group,
    ):
        replies: list[Reply] = []

        async def send(text: str, **fields: str) -> None:
            replies.append(await service.client.send(text, sessionId="one", **fields))

        group.start_soon(send, "1")
        await service.model.reached("here")
        group.start_soon(partial(send, "2", whenBusy="steer"))
        await anyio.wait_all_tasks_blocked()
        service.model.release("here")
        await until(lambda: len(replies) == 2)
        first, second = replies
        assert first.json == second.json
        assert first.types.count("session") == 1
        assert first.json["text"] == "Both."


async def test_steering_that_the_turn_did_not_take_gets_its_own(seller: Project) -> None:
    """E-153: Here a denial ended the turn in between."""
    async with run_service(seller, call("sell", item="hat"), say("Own turn.")) as service:
        asked = await service.client.send("1", sessionId="one")
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        agent.steer("unrelated")  # of somebody else: it is not sent again
        queued = await service.client.send("2", sessionId="one", whenBusy="steer")
        assert queued.json["queued"] is True
        denied = await service.client.post(asked.json["denyUrl"])
        assert denied.json["stopReason"] == "denied"
        await agent.when_idle()
        turns = [e.data["turn"] for e in agent.session.events if e.type == "turn/start"]
        assert turns == [1, 2]
        texts = [m.text for m in agent.session.derive_messages() if m.source.kind == "user"]
        assert texts[0] == "1"
        assert texts[-1] == "2"
        assert "unrelated" not in texts


async def test_a_busy_session_may_be_refused(project: Project) -> None:
    """E-154: Nothing is stored then."""
    slow = reply(pause("here"), say("One."))
    async with (
        run_service(project, slow) as service,
        service.client.stream("POST", f"{MESSAGES}/stream", {"message": "1", "sessionId": "one"}),
    ):
        await service.model.reached("here")
        agent = service.ctx[Agents].get(ONE)
        assert agent is not None
        length = len(agent.session.events)
        refused = await service.client.send("2", sessionId="one", whenBusy="reject")
        assert refused.code == "409 session_busy"
        assert len(agent.session.events) == length
        service.model.release("here")
        await agent.when_idle()


async def test_a_message_behind_an_open_item_is_answered_with_that_item(seller: Project) -> None:
    """E-155: It says that it is queued."""
    async with run_service(seller, call("sell", item="hat"), say("Sold."), say("Two.")) as service:
        asked = await service.client.send("1", sessionId="one")
        queued = await service.client.send("2", sessionId="one", messageId="m-2")
        assert (queued.status, queued.json["queued"]) == (202, True)
        assert queued.json["id"] == asked.json["id"]
        assert queued.json["events"] == []
        ended = await service.client.post(asked.json["approveUrl"])
        assert ended.json["text"] == "Sold."
        own = await service.client.send("2", sessionId="one", messageId="m-2")
        assert (own.status, own.json["text"]) == (200, "Two.")


async def test_a_message_behind_a_failed_turn_runs_without_another_request(
    project: Project,
) -> None:
    """E-494: Two of them keep their order."""
    slow = reply(pause("here"), fail("SERVER_ERROR", "broken"))
    async with (
        run_service(project, slow, say("Two."), say("Three.")) as service,
        anyio.create_task_group() as group,
    ):
        replies: list[Reply] = []

        async def send(text: str) -> None:
            replies.append(await service.client.send(text, sessionId="one"))

        for text in ("1", "2", "3"):
            group.start_soon(send, text)
            await anyio.wait_all_tasks_blocked()
        service.model.release("here")
        await until(lambda: len(replies) == 3)
        assert [each.status for each in replies] == [500, 200, 200]
        assert [each.json["text"] for each in replies[1:]] == ["Two.", "Three."]


async def test_a_message_is_durable_before_it_is_answered(project: Project) -> None:
    """E-157, E-113: A stream begins after the flush, too."""
    async with run_service(project, say("Hello.")) as service:
        flushed = anyio.Event()
        held = anyio.Event()

        async def flush(session: Session) -> None:
            held.set()
            await flushed.wait()

        service.ctx.on(FLUSH, flush)
        began = False

        async def send() -> None:
            nonlocal began
            async with service.client.stream("POST", f"{MESSAGES}/stream", {"message": "Hi"}) as s:
                began = True
                await s.events()

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await held.wait()
            await anyio.wait_all_tasks_blocked()
            assert not began
            flushed.set()
        assert began


async def test_a_blocked_prompt_is_forbidden(project: Project) -> None:
    """E-167: With the events of its turn."""
    async with run_service(project) as service:

        async def refuse(
            submission: PromptSubmission, call_next: Next[Allow | Block]
        ) -> Allow | Block:
            return Block("not here")

        service.ctx.on(PROMPT_SUBMIT, refuse)
        blocked = await service.client.send("Hi")
        assert blocked.code == "403 blocked"
        assert blocked.types == ["session", "error"]
        assert blocked.json["error"] == "blocked: not here"


async def test_the_end_of_a_turn_beats_an_open_item() -> None:
    """E-145: No way through the app makes both true at the same moment."""
    session = Session(ONE)
    session.append("turn/start", TurnStart(1))
    conversation = Conversation(session, SessionKey.parse(ONE))
    asked = session.append("approval/asked", {"id": "p"})
    conversation.take(asked)
    turn = conversation.turns[1]
    reached = reached_by_turn(conversation, turn)
    assert reached is not None
    assert reached.item is not None
    conversation.take(session.append("turn/end", TurnEnd(1, Completed())))
    conversation.take(asked)
    reached = reached_by_turn(conversation, turn)
    assert reached is not None
    assert reached.item is None
