"""The plugin: registers the loop as the factory of agents and starts the configured ones."""

from pydantic import PositiveInt

from terret_agents import (
    Agent,
    AgentEntries,
    AgentOptions,
    Agents,
    LoopFactory,
    publish_agent_nowait,
    start_agents_when_ready,
)
from terret_agents.loops import register_variables
from terret_context import Config, Context, Service
from terret_llm import Llm
from terret_sessions import SESSION_PERSISTENCE, Session, SessionMeta, Sessions
from terret_system_prompt import SystemPrompt
from terret_tools import Tools

from ._loop import LoopAgent


class AgentLoopConfig(Config):
    """Configuration of the entry `agent-loop`."""

    agents: AgentEntries = ()
    """Agents to start with the harness."""
    max_parallel_tool_calls: PositiveInt = 10
    """How many tool calls of an agent may overlap, where the agent does not say; 1 is serial."""


class AgentLoop(
    Service,
    key="agentLoop",
    config=AgentLoopConfig,
    inject=(Llm, Sessions, SystemPrompt, Agents, Tools),
    optional=(SESSION_PERSISTENCE,),  # so that agents have ended before their storage closes
):
    """The default agent loop: call the model, run the tools, repeat."""

    def __init__(self, ctx: Context, config: AgentLoopConfig) -> None:
        super().__init__(ctx, config)
        self._max_parallel_tool_calls = config.max_parallel_tool_calls
        self._entries = config.agents

    def init(self) -> None:
        """Registers the loop; configured agents start when the harness is ready."""
        ctx = self.ctx
        ctx[Agents].set_factory(LoopFactory(ctx, self._agent))
        register_variables(ctx, _route)
        ctx.on_update(self._take_over)
        start_agents_when_ready(ctx, self._entries)

    def create(
        self,
        session_id: str,
        options: AgentOptions | None = None,
        meta: SessionMeta | None = None,
    ) -> Agent:
        """Creates an agent at once, without a setup; the caller's fiber owns it."""
        session = self.ctx[Sessions].prepare(session_id, meta=meta)
        agent = self._agent(session, options)
        return publish_agent_nowait(self.caller, self.ctx, agent).agent

    def _agent(self, session: Session, options: AgentOptions | None) -> LoopAgent:
        return LoopAgent(self.ctx, session, options, lambda: self._max_parallel_tool_calls)

    def _take_over(self, old: AgentLoopConfig, new: AgentLoopConfig) -> bool:
        if old.agents != new.agents:
            return False
        self._max_parallel_tool_calls = new.max_parallel_tool_calls
        return True


def _route(agent: Agent) -> tuple[str, str]:
    return agent.route if isinstance(agent, LoopAgent) else ("", "")
