"""A whole harness in a test: real container, real services, the loop, one agent."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from difflib import ndiff
from typing import TypeAlias

from terret_agents import Agent, AgentOptions, Agents
from terret_context import Container, Context, Fiber, FiberState, Plugin, plugin
from terret_llm import GenerateOptions, Llm
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
from ._transcript import transcript

Mount: TypeAlias = object | tuple[object, object]
"""A plugin in any form, or a pair of a plugin and its config."""

PROVIDER = "scripted"


class Harness:
    """A running harness with one agent; made by `running_harness`.

    Attributes:
        ctx: The root of the container.
        agent: The agent under test.
        model: The model that answers.
    """

    def __init__(self, ctx: Container, agent: Agent, model: ScriptedModel) -> None:
        self.ctx = ctx
        self.agent = agent
        self.model = model

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

        Raises `ScriptExhaustedError` if the model was asked more often than its script allows.
        """
        before = len(self.events)
        self.agent.send(text)
        await self.agent.when_idle()
        self.check_script()
        answers = [
            event.view.message.text
            for event in self.events[before:]
            if isinstance(event.view, AssistantMessage)
        ]
        return answers[-1] if answers else ""

    def check_script(self) -> None:
        """Raises the error of a request that had no answer in the script."""
        if self.model.exhausted is not None:
            raise self.model.exhausted

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
    loop: str = "agent-loop",
    session_id: str = "test",
) -> AsyncIterator[Harness]:
    """Boots a harness around one agent, and takes it down in order.

    The five services, the invariants of the log, the model and the loop are mounted first, the
    given plugins after them. `loop` is the name of an installed plugin that sets the factory of
    agents. Raises `PluginFailedError` for a plugin that fails, and `AssertionError` for one that
    waits for something that nobody provides.
    """
    model = model or ScriptedModel()
    async with Container() as root:
        services = (Llm, Sessions, log_invariants, SystemPrompt, Agents, Tools)
        mounts = [*services, _adapter_of(model), _installed(loop), *plugins]
        fibers = [_mount(root, each) for each in mounts]
        await root.settle()
        for fiber in fibers:
            await _check(root, fiber)
        handle = await root[Agents].create(
            session_id=session_id,
            agent_options=options or AgentOptions(provider=PROVIDER, model=PROVIDER),
        )
        async with handle:
            yield Harness(root, handle.agent, model)


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
