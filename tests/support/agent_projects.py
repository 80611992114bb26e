"""Projects in temporary folders, and harnesses that run them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from terret_agents import Agent
from terret_context import Container
from terret_llm import Llm
from terret_loader import open_harness
from terret_plugin_agent_folders import AgentFolders
from terret_sessions import AssistantMessage, ToolResult
from terret_testing import Answer, ScriptedModel, script

HARNESS = """
plugins:
  llm: {}
  sessions: {}
  session-jsonl: {}
  system-prompt: {}
  agents: {}
  tools: {}
  agent-loop: {}
  agent-folders:
    defaults: {model: {provider: scripted, model: m}}
"""


class Project:
    """Writes files, named relative to the root of a project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write({"harness.yml": HARNESS})

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    def agent(self, name: str = "shop", text: str = "systemPrompt: Sell things.") -> Path:
        """Writes the agent.yml of an agent and returns its folder."""
        self.write({f"agents/{name}/agent.yml": text + "\n"})
        return self.root / "agents" / name


@dataclass
class Running:
    """A harness that runs a project."""

    ctx: Container
    folders: AgentFolders
    model: ScriptedModel

    async def say(self, agent: Agent, text: str) -> str:
        """Sends a message and returns the answer."""
        agent.send(text)
        await agent.when_idle()
        if self.model.exhausted is not None:
            raise self.model.exhausted
        answers = [e.view for e in agent.session.events if isinstance(e.view, AssistantMessage)]
        return answers[-1].message.text if answers else ""

    def results(self, agent: Agent) -> list[str]:
        """Returns what the tools of an agent gave."""
        views = [event.view for event in agent.session.events]
        return [view.block.text for view in views if isinstance(view, ToolResult)]

    @property
    def faults(self) -> list[str]:
        return [str(fault) for fault in self.folders.faults]


@asynccontextmanager
async def run_project(
    project: Project, *answers: Answer, env: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """Starts the harness of a project, with a model that gives these answers."""
    model = script(*answers)
    async with open_harness(project.root / "harness.yml", env=env or {}) as root:
        root[Llm].register_adapter("scripted", model)
        yield Running(root, root[AgentFolders], model)
