"""Agents defined by folders: discovery, instances per conversation, scaffolding."""

from ._config import AgentConfig, AgentDefaults, AgentFoldersConfig, ModelConfig
from ._definition import Definition, DefinitionPart, RequestHook
from ._errors import (
    AgentExistsError,
    AgentModelError,
    AgentNameError,
    AgentNotFoundError,
    AgentUnavailableError,
    ProjectExistsError,
)
from ._scaffolding import AgentTemplate, scaffold_agent, scaffold_project, scaffold_subagent
from ._service import AgentFolders

__all__ = [
    "AgentConfig",
    "AgentDefaults",
    "AgentExistsError",
    "AgentFolders",
    "AgentFoldersConfig",
    "AgentModelError",
    "AgentNameError",
    "AgentNotFoundError",
    "AgentTemplate",
    "AgentUnavailableError",
    "Definition",
    "DefinitionPart",
    "ModelConfig",
    "ProjectExistsError",
    "RequestHook",
    "scaffold_agent",
    "scaffold_project",
    "scaffold_subagent",
]
