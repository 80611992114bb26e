"""What several chapters use."""

from collections.abc import Callable
from dataclasses import replace

import anyio
import anyio.lowlevel

from terret_agents import Agent, AgentHandle, Agents
from terret_context import Context, Effect, plugin
from terret_llm import Message, PluginSource, ToolResultBlock, create_user_message
from terret_sessions import (
    EVENT,
    RequestHeader,
    Session,
    SessionEvent,
    Sessions,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)
from terret_testing import SCRIPTED, Harness
from terret_tools import Tool, ToolRun, Tools, tool

ONE_AT_A_TIME = replace(SCRIPTED, max_parallel_tool_calls=1)


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


def note(text: str) -> Message:
    return create_user_message(text, PluginSource("note"))


def count(h: Harness, payload: type) -> int:
    return sum(isinstance(event.view, payload) for event in h.events)


def turn_numbers(h: Harness) -> list[int]:
    return [event.view.turn for event in h.events if isinstance(event.view, TurnStart)]


def end_of(agent: Agent) -> TurnEndReason | None:
    """Why the last turn of an agent ended."""
    ends = [e.view.reason for e in agent.session.events if isinstance(e.view, TurnEnd)]
    return ends[-1] if ends else None


def codes(h: Harness) -> list[str | None]:
    """The error codes of the tool results in the log; `None` for a success."""
    found = [event.view for event in h.events if isinstance(event.view, ToolResult)]
    return [result.error.code if result.error else None for result in found]


def text_of(message: Message) -> str:
    """The text of a message, that of tool results included."""
    blocks = [block for block in message.content if isinstance(block, ToolResultBlock)]
    return message.text + "".join(block.text for block in blocks)


def headers(h: Harness) -> list[RequestHeader]:
    return [event.view for event in h.events if isinstance(event.view, RequestHeader)]


async def create(ctx: Context, session_id: str = "b") -> AgentHandle:
    """Creates a further agent, owned by the fiber of `ctx`."""
    return await ctx[Agents].create(session_id=session_id, agent_options=SCRIPTED)


async def resume(ctx: Context, session_id: str = "b") -> AgentHandle:
    """Makes an agent over a stored session, owned by the fiber of `ctx`."""
    return await ctx[Agents].resume(resume_session_id=session_id, agent_options=SCRIPTED)


async def owner(h: Harness) -> Context:
    """The context of a plugin that lives until its fiber is disposed."""

    @plugin(name="owner", inject=(Agents,))
    def mount(ctx: Context) -> None: ...

    fiber = h.ctx.plugin(mount)
    await fiber.ready()
    ctx: Context = fiber.ctx
    return ctx


async def breathe() -> None:
    """Lets everything that can go on do so."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


def on_event(h: Harness, event_type: str, do: Callable[[], object]) -> None:
    """Does something whenever an event of that type has been logged."""

    def observe(session: Session, event: SessionEvent) -> None:
        if event.type == event_type:
            do()

    h.ctx.on(EVENT, observe)


def vetoing(h: Harness, event_type: str) -> Effect:
    """Refuses the next event of that type."""
    left = [event_type]

    def veto(session: Session, event: SessionEvent) -> None:
        if event.type in left:
            left.remove(event.type)
            raise ValueError(f"no {event.type}")

    return h.ctx[Sessions].validator(veto)


class Bench:
    """Tools whose bodies report when they begin and wait until they are released."""

    def __init__(self, h: Harness, *names: str) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self._begun = {name: anyio.Event() for name in names}
        self._released = {name: anyio.Event() for name in names}
        for name in names:
            h.ctx[Tools].register(self._tool(name))

    async def begun(self, name: str) -> None:
        await self._begun[name].wait()

    def release(self, *names: str) -> None:
        for name in names:
            self._released[name].set()

    def _tool(self, name: str) -> Tool:
        async def body(run: ToolRun) -> str:
            self.started.append(name)
            run.defer_context(create_user_message(f"context {name}", PluginSource("bench")))
            self._begun[name].set()
            try:
                await self._released[name].wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled.append(name)
                raise
            return f"result {name}"

        return tool(name=name, description=name, is_concurrency_safe=lambda args: True)(body)
