"""What a folder defines."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from terret_agents import AgentOptions
from terret_context import Context
from terret_loader import Fault, Node
from terret_sessions import SessionKey
from terret_tools import Tool

from ._config import AgentConfig, ModelConfig

RequestHook: TypeAlias = Callable[[Mapping[str, Any]], str | Awaitable[str | None] | None]
"""Picks a session id from a body, or a tenant from headers; plain or async."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A valid agent folder, all paths absolute.

    Attributes:
        name: Under which the agent is known.
        folder: The agent's folder.
        file: Its `agent.yml` or `agent.py`.
        config: The keys of that file.
        node: The same with their places; `None` for `agent.py`.
        prompt: The system prompt.
        model: The model; `None` if a plugin of the definition brings it.
        tools: Its own tools.
        plugins: Entries to mount for each instance.
        plugin: The plugin that `agent.py` exports.
        permissions: The file with its rules, there or not, or the rules: a node of `agent.yml`.
        skills_dirs: Folders with its own skills, there or not.
        cwd: Working directory of fresh sessions.
        children: What its `subagents` define.
        session_id_for: Picks a session id from a body.
        tenant_for: Finds the tenant in headers.
    """

    name: str
    folder: Path
    file: Path
    config: AgentConfig
    node: Node | None = field(repr=False)
    prompt: str
    model: ModelConfig | None
    tools: tuple[Tool, ...]
    plugins: Node | Mapping[str, Any] | None = field(repr=False)
    plugin: object | None
    permissions: Path | Node | Mapping[str, Any]
    skills_dirs: tuple[Path, ...]
    cwd: Path | None
    children: "tuple[Definition, ...]"
    session_id_for: RequestHook | None
    tenant_for: RequestHook | None

    def options(self) -> AgentOptions:
        """Returns what instances are created with."""
        model = self.model
        return AgentOptions(
            provider=model.provider if model else None,
            model=model.model if model else None,
            max_tokens=model.max_tokens if model else None,
            max_parallel_tool_calls=self.config.max_parallel_tool_calls,
        )


class DefinitionPart(Protocol):
    """What another plugin makes of a definition, for `AgentFolders.add_part`."""

    async def check(self, definition: Definition) -> Iterable[Fault]:
        """Returns what is wrong with the keys and files that the plugin reads."""

    async def install(self, ctx: Context, definition: Definition, key: SessionKey) -> None:
        """Composes a new instance through its scoped context, before it is published."""
