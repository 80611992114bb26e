"""The keys of `agent.yml`, and the configuration of the entry `agent-folders`."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt, StrictBool

from terret_context import Config


def _as_text(value: object) -> object:
    return os.fspath(value) if isinstance(value, PurePath) else value


# Text, not `Path`: the difference between relative and absolute paths is still to be checked.
PathText: TypeAlias = Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]


class ModelConfig(Config):
    """Which model answers."""

    provider: str = Field(min_length=1)
    """Provider, as the plugin of a model registered it."""
    model: str | None = Field(default=None, min_length=1)
    """The model; left out, the default of the provider."""
    max_tokens: PositiveInt | None = None
    """Output cap of each request."""
    base_url: str | None = None
    """Not supported here: the address belongs to the entry of the provider's plugin."""


class AgentConfig(Config):
    """A definition: the keys of `agent.yml`, or in snake_case of `config` in `agent.py`."""

    name: str | None = None
    """Name of the agent, by default that of its folder."""
    description: str | None = None
    """Shown in lists."""
    system_prompt: str | None = None
    """The system prompt; by default the text of `prompt.md`."""
    prompt_file: PathText | None = None
    """A file with the system prompt."""
    tool_description: str | None = Field(default=None, min_length=1)
    """What the agent is for, as its parent's model reads it; required below `subagents`."""
    model: ModelConfig | None = None
    """The model, by default `agent-folders.defaults.model` of the harness."""
    tools: tuple[str, ...] | None = None
    """Files with tools, `FILE:NAME` or `MODULE:NAME`, in place of all of `tools/*.py`."""
    skills_dirs: tuple[PathText, ...] = ("skills",)
    """Folders with skills."""
    permissions: PathText | Mapping[str, Any] | None = None
    """A file with rules, by default `permissions.yml`, or the rules themselves."""
    max_turns: PositiveInt = 25
    """How many model calls a user turn may take."""
    context_budget_tokens: PositiveInt | Literal["auto"] = "auto"
    """How large the context may become; `auto`: the model's window without its output cap."""
    skill_index_budget_tokens: NonNegativeInt = 200
    """How large the list of skills in the prompt may be."""
    parallel_safe: StrictBool = False
    """As a subagent: whether its calls may run beside others."""
    max_parallel_tool_calls: PositiveInt | None = None
    """How many tool calls may overlap, by default what the loop says."""
    cwd: PathText | None = None
    """Working directory of fresh sessions."""
    plugins: Mapping[str, Any] = Field(default={})
    """Entries as in `harness.yml`, mounted for each instance."""
    session_id_for: str | None = None
    """`FILE:FUNCTION` that picks the session id from the body of a request."""
    tenant_for: str | None = None
    """`FILE:FUNCTION` that finds the tenant in the headers of a request."""


class AgentDefaults(Config):
    """What holds for definitions that do not say."""

    model: ModelConfig | None = None
    """The model."""


class AgentFoldersConfig(Config):
    """Configuration of the entry `agent-folders`."""

    root: Path = Path(".")
    """The project: the folder that holds `agents`, by default that of `harness.yml`."""
    environment: str | None = None
    """Part of every session's id, by default the variable `TERRET_ENV`, else `production`."""
    defaults: AgentDefaults = AgentDefaults()
    """What holds for definitions that do not say."""
    idle_evict_seconds: PositiveFloat = 900
    """After how much time without work an instance is taken down; it comes back from its log."""
