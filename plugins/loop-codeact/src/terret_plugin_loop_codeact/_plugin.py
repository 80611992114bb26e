"""The plugin: registers the loop as the factory of agents and starts the configured ones."""

import sys

from pydantic import Field, PositiveFloat, PositiveInt

from terret_agents import (
    Agent,
    AgentEntries,
    AgentOptions,
    Agents,
    LoopFactory,
    start_agents_when_ready,
)
from terret_agents.loops import register_variables
from terret_context import Config, Context, plugin
from terret_llm import Llm
from terret_sessions import SESSION_PERSISTENCE, Session, Sessions
from terret_system_prompt import SystemPrompt
from terret_tools import Tools

from ._interpreter import Settings
from ._loop import CodeActAgent
from ._prompt import INSTRUCTIONS


class LoopCodeActConfig(Config):
    """Configuration of the entry `loop-codeact`."""

    agents: AgentEntries = ()
    """Agents to start with the harness."""
    command: tuple[str, ...] = Field(default=(), examples=[("docker", "run", "--rm", "-i", "py")])
    """Starts a Python interpreter that takes `-c`; left out, the one that runs the harness."""
    environment: tuple[str, ...] = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")
    """Names of the environment variables that programs see; no others are passed on."""
    timeout: PositiveFloat = 60.0
    """Seconds a program may compute; the time its tools take is not counted."""
    max_output: PositiveInt = 20_000
    """How much of the output of a program the model is shown, in bytes."""

    def settings(self) -> Settings:
        """Returns what the interpreters of all agents have in common."""
        command = self.command or (sys.executable, "-I")
        return Settings(command, self.environment, self.timeout, self.max_output)


@plugin(
    config=LoopCodeActConfig,
    inject=(Llm, Sessions, SystemPrompt, Agents, Tools),
    optional=(SESSION_PERSISTENCE,),  # so that agents have ended before their storage closes
)
def loop_codeact(ctx: Context, config: LoopCodeActConfig) -> None:
    """Makes this the loop of the harness and starts the configured agents."""
    settings = config.settings()

    def make(session: Session, options: AgentOptions | None) -> CodeActAgent:
        return CodeActAgent(ctx, session, options, settings)

    def route(agent: Agent) -> tuple[str, str]:
        return agent.route if isinstance(agent, CodeActAgent) else ("", "")

    ctx[Agents].set_factory(LoopFactory(ctx, make))
    ctx[SystemPrompt].section("python-programs", 150, INSTRUCTIONS)
    register_variables(ctx, route)
    start_agents_when_ready(ctx, config.agents)
