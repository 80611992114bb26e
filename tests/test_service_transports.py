"""One turn is the same on every transport: streamed, in an answer, on the command line, stored."""

import io
import json
from collections.abc import Callable, Coroutine
from contextlib import aclosing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import anyio
import pytest

from served_projects import served_project, write_project
from terret.__main__ import main
from terret_client import Answer, QuestionPending, TerretClient
from terret_plugin_loop_events import check
from turn_plans import RULES

SCRIPTED = """
from terret_context import plugin
from terret_llm import Llm
from terret_tools import Tools
from turn_plans import Plan, add_tools, model_of

@plugin(inject=(Llm, Tools))
def scripted(ctx):
    ctx[Llm].register_adapter("scripted", model_of(Plan(STEPS, [])))
    add_tools(ctx[Tools])
"""
MORE = f"""
  scripted: {{use: ./scripted.py}}
  permissions: {{audit: "off", rules: {json.dumps(RULES)}}}
"""
SCRIPTS: dict[str, list[list[str]]] = {
    "only text": [],
    "what policies and people say": [["good", "fail", "forbidden", "bad"], ["ask"], ["helper"]],
    "the limit of model calls": [["good"]] * 4,
    "a tool concludes the turn": [["end", "good"]],
}


def project(folder: Path, steps: list[list[str]]) -> Path:
    files = {
        "scripted.py": SCRIPTED.replace("STEPS", repr(steps)),
        "agents/shop/agent.yml": "systemPrompt: Sell things.\nmaxTurns: 4\n",
    }
    return write_project(folder, files, MORE)


def comparable(events: list[Any]) -> list[Any]:
    """What does not differ between two turns of one script: items have ids and times."""
    ids = [event["id"] for event in events if event["type"].endswith(":pending")]
    text = json.dumps([{**event, "requestedAt": "then"} for event in events])
    for number, id in enumerate(ids):
        text = text.replace(id, f"item {number}")
    found: list[Any] = json.loads(text)
    return found


async def streamed(client: TerretClient) -> list[Any]:
    given = []
    async with aclosing(client.stream_message("shop", "go", session_id="s")) as events:
        async for event in events:
            given.append(event.data)
            if event.type == "approval:pending":
                await client.approve_call(event.data["id"], wait=False)
    return given


async def answered(client: TerretClient) -> list[Any]:
    """The events of the answer; those of the answers before it are their beginning."""
    parts = []
    reply = await client.send_message("shop", "go", session_id="s")
    while not isinstance(reply, Answer):
        assert not isinstance(reply, QuestionPending)
        parts.append(reply.events)
        reply = await client.approve_call(reply.id)
    assert all(part == reply.events[: len(part)] for part in parts)
    return [event.data for event in reply.events]


def over_http(
    root: Path, ask: Callable[[TerretClient], Coroutine[Any, Any, list[Any]]]
) -> list[Any]:
    async def serve() -> list[Any]:
        async with served_project(root) as served, served.client() as client:
            return await ask(client)

    return anyio.run(serve)


def commanded(root: Path, *words: str) -> list[Any]:
    """What a command prints: one event a line, and nothing else."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()), pytest.raises(SystemExit):
        main([*words, "--root", str(root)])
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_transport_gives_the_same_events(script: str, tmp_path: Path) -> None:
    """E-130, E-131, E-132, E-133, E-082."""
    roots = [project(tmp_path / name, SCRIPTS[script]) for name in ("sse", "plain", "json")]
    run = ["run", "--json", "--session", "s", "--on-ask", "allow", "--agent", "shop", "go"]
    turns = [over_http(roots[0], streamed), over_http(roots[1], answered)]
    turns.append(commanded(roots[2], *run))
    export = ["sessions", "export", "s", "--agent", "shop", "--protocol", "v1"]
    assert commanded(roots[0], *export) == turns[0]
    assert comparable(turns[0]) == comparable(turns[1]) == comparable(turns[2])
    check(turns[0], agent="shop")
