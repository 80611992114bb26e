"""New projects, agents and subagents as files."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from ._errors import (
    AgentExistsError,
    AgentModelError,
    AgentNameError,
    AgentNotFoundError,
    ProjectExistsError,
)
from ._names import check_name
from ._project import project_files
from ._reading import FILES

DEFAULT_PROVIDER: Final = "anthropic"
USUAL_MODELS: Final[Mapping[str, str]] = {DEFAULT_PROVIDER: "claude-sonnet-5"}
KEYLESS: Final = "local"
PLACEHOLDER: Final = "You are a helpful assistant. Say what this agent is for, and how it answers."


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTemplate:
    """What a new agent is to begin with.

    Attributes:
        system_prompt: its prompt, taken literally.
        provider: who answers, by default `anthropic`.
        model: which model; a provider other than `anthropic` and `local` needs it.
        python: whether `agent.py` is written in place of `agent.yml`.
    """

    system_prompt: str | None = None
    provider: str | None = None
    model: str | None = None
    python: bool = False


def scaffold_agent(root: Path, name: str, template: AgentTemplate | None = None) -> Path:
    """Writes `agents/NAME/agent.yml` or `agent.py` of a project, and returns its path.

    Raises `AgentNameError`, `AgentExistsError` or `AgentModelError`, and writes nothing then.
    """
    folder = root / "agents" / check_name(name)
    values = _values(name, template or AgentTemplate())
    return _write(folder, name, values, python=template is not None and template.python)


def scaffold_subagent(root: Path, parent: str, name: str) -> Path:
    """Writes `agent.yml` of a subagent of `parent`, such as `shop` or `shop/billing`.

    Raises `AgentNameError`, `AgentNotFoundError` for a missing agent on the way, or
    `AgentExistsError`, and writes nothing then.
    """
    folder, above = root, list[str]()
    for segment in parent.split("/"):
        above.append(check_name(segment))
        folder = folder / ("subagents" if len(above) > 1 else "agents") / segment
        if not any((folder / file).is_file() for file in FILES):
            raise AgentNotFoundError(segment, folder)
    if check_name(name) in above:
        raise AgentNameError(name, "an agent above it has this name")
    values = _values(name, AgentTemplate())
    values["toolDescription"] = f"Ask {name}. Say what it can do for the agent above it."
    return _write(folder / "subagents" / name, name, values, python=False)


def scaffold_project(folder: Path) -> tuple[Path, ...]:
    """Writes a new project with one agent, a tool and rules, and returns the paths.

    Raises `ProjectExistsError`, and writes nothing, if one of the files is there.
    """
    texts = {folder / name: text for name, text in project_files().items()}
    if there := [*dict.fromkeys(each for path in texts for each in _in_the_way(path))]:
        raise ProjectExistsError(there)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tuple(texts)


def _in_the_way(path: Path) -> Iterator[Path]:
    """Gives what is in the place of a new file, or of a folder above it."""
    if os.path.lexists(path):
        yield path
    yield from (each for each in path.parents if os.path.lexists(each) and not each.is_dir())


def _values(name: str, template: AgentTemplate) -> dict[str, str]:
    provider = template.provider or DEFAULT_PROVIDER
    model = template.model or USUAL_MODELS.get(provider)
    if model is None and provider != KEYLESS:
        raise AgentModelError(provider, (*USUAL_MODELS, KEYLESS))
    prompt = PLACEHOLDER if template.system_prompt is None else template.system_prompt
    values = {"name": name, "systemPrompt": prompt, "provider": provider}
    return values if model is None else {**values, "model": model}


def _write(folder: Path, name: str, values: Mapping[str, str], *, python: bool) -> Path:
    if any((folder / file).exists() for file in FILES):
        raise AgentExistsError(name, folder)
    path = folder / ("agent.py" if python else "agent.yml")
    text = (_as_python if python else _as_yaml)(values)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def _as_yaml(values: Mapping[str, str]) -> str:
    lines = [f"name: {values['name']}", f"systemPrompt: {_quoted(values['systemPrompt'])}"]
    if "toolDescription" in values:
        lines.append(f"toolDescription: {_quoted(values['toolDescription'])}")
    lines += [
        *_key_comment(values["provider"]),
        "model:",
        *(f"  {key}: {_quoted(values[key])}" for key in ("provider", "model") if key in values),
    ]
    return "\n".join(lines) + "\n"


def _as_python(values: Mapping[str, str]) -> str:
    model = (f"{key}={values[key]!r}" for key in ("provider", "model") if key in values)
    lines = [
        "from terret_plugin_agent_folders import AgentConfig, ModelConfig",
        "",
        *_key_comment(values["provider"]),
        "config = AgentConfig(",
        f"    name={values['name']!r},",
        f"    system_prompt={values['systemPrompt']!r},",
        f"    model=ModelConfig({', '.join(model)}),",
        ")",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Writes text so that reading gives it back: `$` begins a reference in these files."""
    if re.fullmatch(r"[a-z][a-z0-9-]*[0-9a-z]", text) and text not in _WORDS:
        return text
    return yaml.safe_dump(
        text.replace("$", "$$"), default_style='"', allow_unicode=True, width=float("inf")
    ).strip()


_WORDS: Final = frozenset({"true", "false", "null"})


def _key_comment(provider: str) -> list[str]:
    variable = re.sub(r"[^A-Z0-9]+", "_", provider.upper()) + "_API_KEY"
    text = f"# The key is read from {variable}, for example in .env."
    return [] if provider == KEYLESS else [text]
