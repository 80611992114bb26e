"""Turns by plan: what a model calls, what people say to that, and the tools that are called."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import anyio
from hypothesis import strategies as st

from terret_agents import Agents
from terret_llm import GenerateOptions
from terret_testing import SCRIPTED, Part, Reply, ScriptedModel, raw_call, reply, say
from terret_tools import ToolRun, Tools, tool

RULES = [
    {"tool": "*", "decision": "allow"},
    {"tool": "ask", "decision": "ask", "editable": True, "name": "careful"},
    {"tool": "forbidden", "decision": "deny"},
]
ARGUMENTS = {"system_ask_user": '{"question":"Which?"}', "bad": "{}", "good": '{"text":"x"}'}
CALLS = ["good", "fail", "ask", "forbidden", "system_ask_user", "unknown", "good#", "helper", "end"]
ANSWERS = ["yes", "no", "edit", "none", "raise", "slow", "twice"]


@dataclass
class Plan:
    """A turn: the calls of each answer, what people say, and when somebody cancels."""

    steps: list[list[str]]
    people: list[str]
    cancel_at: int | None = None


plans = st.builds(
    Plan,
    steps=st.lists(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4), max_size=3),
    people=st.lists(st.sampled_from(ANSWERS), max_size=6),
    cancel_at=st.none() | st.integers(5, 80),
)


def model_of(plan: Plan) -> ScriptedModel:
    """Answers an agent by plan; an agent below it asks for one call and is done."""
    parent = deque(plan.steps)

    def answer(request: GenerateOptions) -> Part | Reply:
        if str(request.session_id).startswith("kid-"):
            last = request.messages[-1]
            return say("Kid done.") if last.source.kind == "tool" else raw_call("ask", "{}")
        if not parent:
            return say("Done.")
        named = [name.rstrip("#") for name in parent.popleft()]
        calls = [raw_call(name, ARGUMENTS.get(name, "{}")) for name in named]
        return reply(say("Now."), *calls)

    return ScriptedModel(*[answer] * 60)


def add_tools(tools: Tools) -> None:
    @tool(is_concurrency_safe=lambda args: True)
    async def good(text: str) -> str:
        """Give it back."""
        await anyio.lowlevel.checkpoint()
        return text

    @tool
    async def fail() -> str:
        """Fail."""
        raise RuntimeError("broken")

    @tool(is_concurrency_safe=lambda args: True)
    async def ask(text: str = "original") -> str:
        """Do what somebody has to approve."""
        return text

    @tool
    async def forbidden() -> str:
        """Never run."""
        raise AssertionError

    @tool
    async def end(run: ToolRun) -> str:
        """Conclude the turn."""
        run.conclude_turn()
        return "over"

    @tool
    async def helper(run: ToolRun) -> str:
        """Let an agent below this one work."""
        assert run.agent is not None
        agents = run.agent.ctx[Agents]
        created = await agents.create(
            session_id=f"kid-{run.call_id}-{len(run.agent.session.events)}",
            meta={"agentPreset": "helper"},
            agent_options=SCRIPTED,
        )
        async with created:
            created.agent.send("work")
            await created.agent.when_idle()
        return "helped"

    for each in (good, fail, ask, forbidden, end, helper):
        tools.register(each)


def turns(events: list[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for event in events:
        found[-1].append(event)
        if event["type"] in ("done", "error"):
            found.append([])
    assert found.pop() == []
    return found
