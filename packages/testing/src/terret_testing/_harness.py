"""A whole harness in a test: real container, real services, the loop, one agent."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from difflib import ndiff
from typing import TypeAlias

from terret_agents import ERROR, Agent, AgentFailure, AgentOptions, Agents, request_invariants
from terret_context import Container, Context, Fiber, FiberState, Next, Plugin, plugin
from terret_llm import STREAM, Chunks, GenerateOptions, Llm
from terret_loader import installed_plugins
from terret_sessions import (
    AssistantMessage,
    Session,
    SessionEvent,
    Sessions,
    TurnEnd,
    TurnEndReason,
    log_invariants,
)
from terret_system_prompt import SystemPrompt
from terret_tools import Tools

from ._model import ScriptedModel
from ._streams import OpenScopeError, watched
from ._transcript import transcript

Mount: TypeAlias = object | tuple[object, object]
"""A plugin in any form, or a pair of a plugin and its config."""

PROVIDER = "scripted"
SERVICES = (Llm, Sessions, log_invariants, SystemPrompt, Agents, Tools, request_invariants)

_logger = logging.getLogger(__name__)

SCRIPTED = AgentOptions(provider=PROVIDER, model=PROVIDER)
"""Options of an agent that the model of `running_harness` answers."""


class Harness:
    """A running harness with one agent; made by `running_harness`.

    Attributes:
        ctx: The root of the container.
        agent: The agent under test.
        model: The model that answers.
        loop: The running plugin that drives the agent.
    """

    def __init__(self, ctx: Container, agent: Agent, model: ScriptedModel, loop: Fiber) -> None:
        self.ctx = ctx
        self.agent = agent
        self.model = model
        self.loop = loop
        self._misuses: list[OpenScopeError] = []

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def events(self) -> Sequence[SessionEvent]:
        """The log of the agent."""
        return self.session.events

    @property
    def requests(self) -> Sequence[GenerateOptions]:
        """What the model was asked, in order."""
        return self.model.requests

    @property
    def turn_end(self) -> TurnEndReason | None:
        """Why the last turn ended, or `None` before the first."""
        for event in reversed(self.events):
            if isinstance(event.view, TurnEnd):
                return event.view.reason
        return None

    @property
    def transcript(self) -> tuple[str, ...]:
        """The session in lines: `user: hi`, `call: add {"a":1}`, `result: 1`, `assistant: 1`.

        Others are `plugin NAME: text` for injected messages and `error: text` for results.
        """
        return transcript(self.events)

    async def send(self, text: str) -> str:
        """Sends a prompt, waits until the agent is idle and returns the text of its last answer.

        Raises what `check` raises.
        """
        before = len(self.events)
        self.agent.send(text)
        await self.agent.when_idle()
        self.check()
        answers = [
            event.view.message.text
            for event in self.events[before:]
            if isinstance(event.view, AssistantMessage)
        ]
        return answers[-1] if answers else ""

    def check(self) -> None:
        """Raises what went wrong around the model: `ScriptExhaustedError`, `OpenScopeError`.

        The first is that of a request for which the script had no answer, the second that of an
        adapter or a listener of `llm/stream` that yields inside a cancel scope.
        """
        if self._misuses:
            raise self._misuses[0]
        if self.model.exhausted is not None:
            raise self.model.exhausted

    async def watch_stream(self, request: GenerateOptions, call_next: Next[Chunks]) -> Chunks:
        """Listens on `llm/stream`, outermost, for scopes that a stream leaves open."""
        chunks = await call_next()
        if not isinstance(chunks, AsyncGenerator):
            return (
                chunks  # the mistake of a listener, which is named by whoever asked for the stream
            )
        return watched(chunks, self._misuses.append)

    def assert_transcript(self, *lines: str) -> None:
        """Fails unless the session consists of exactly these lines of `transcript`."""
        if self.transcript != lines:
            difference = "\n".join(ndiff(lines, self.transcript))
            raise AssertionError(f"the transcript is not as expected:\n{difference}")


@asynccontextmanager
async def running_harness(
    *,
    plugins: Iterable[Mount] = (),
    model: ScriptedModel | None = None,
    options: AgentOptions | None = None,
    loop: Mount | str = "agent-loop",
    session_id: str = "test",
    grace: float = 10.0,
) -> AsyncIterator[Harness]:
    """Boots a harness around one agent, and takes it down in order.

    The five services, the invariants of log and requests, the model and the loop are mounted first,
    the given plugins after them. `loop` is the plugin that sets the factory of agents, or the name
    of an installed one; `grace` is that of the container. Raises `PluginFailedError` for a plugin
    that fails, and `AssertionError` for one that waits for something that nobody provides.
    """
    model = model or ScriptedModel()
    async with Container(grace=grace) as root:
        for each in (*SERVICES, _adapter_of(model)):
            root.plugin(each)
        driver = _mount(root, _installed(loop) if isinstance(loop, str) else loop)
        fibers = [driver, *(_mount(root, each) for each in plugins)]
        await root.settle()
        for fiber in fibers:
            await _check(root, fiber)
        handle = await root[Agents].create(
            session_id=session_id,
            agent_options=options or SCRIPTED,
        )
        async with handle:
            h = Harness(root, handle.agent, model, driver)
            root.on(STREAM, h.watch_stream, prepend=True)
            root.on(ERROR, _log_failure)
            yield h


def _log_failure(failure: AgentFailure) -> None:
    """Shows pytest why an answer is empty."""
    _logger.error("turn %d of %s failed", failure.turn, failure.agent.id, exc_info=failure.error)


def _adapter_of(model: ScriptedModel) -> Plugin:
    @plugin(name="scripted-model", inject=(Llm,))
    def scripted_model(ctx: Context) -> None:
        ctx[Llm].register_adapter([PROVIDER], model)

    return scripted_model


def _installed(name: str) -> Plugin:
    for each in installed_plugins():
        if each.name == name:
            return each.load()
    names = ", ".join(each.name for each in installed_plugins())
    raise LookupError(f'no plugin "{name}" is installed; installed plugins: {names}')


def _mount(root: Container, mount: Mount) -> Fiber:
    if isinstance(mount, tuple):
        recipe, config = mount
        return root.plugin(recipe, config)
    return root.plugin(mount)


async def _check(root: Container, fiber: Fiber) -> None:
    if fiber.state is FiberState.FAILED:
        await fiber.ready()
    elif fiber.state is not FiberState.ACTIVE:
        raise AssertionError(str(root.explain(fiber)))
