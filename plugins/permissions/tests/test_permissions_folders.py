"""The rules of agents that are defined by folders."""

from pathlib import Path

import pytest

from agent_projects import HARNESS, Project, run_project
from terret_loader import HarnessConfigError
from terret_plugin_permissions import Permissions, Scope
from terret_testing import call, say

TOOL = "from terret_tools import tool\n@tool\ndef price() -> str:\n    return 'seven'\n"
RULES = "rules: [{scope: '*', tool: price, decision: allow}]\n"
INLINE = "systemPrompt: x\npermissions:\n  rules:\n  - {scope: '*', tool: price, decision: allow}"
PYTHON = (
    "from terret_plugin_agent_folders import AgentConfig\n"
    "rules = [{'scope': '*', 'tool': 'price', 'decision': 'allow'}]\n"
    "config = AgentConfig(system_prompt='x', permissions={'rules': rules})\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERRET_ENV", raising=False)
    project = Project(tmp_path)
    project.write({"harness.yml": HARNESS.replace("plugins:", "plugins:\n  permissions: {}")})
    project.write({"agents/shop/tools/price.py": TOOL})
    return project


@pytest.mark.parametrize(
    "files",
    [
        {"agent.yml": "systemPrompt: x", "permissions.yml": RULES},
        {"agent.yml": "systemPrompt: x\npermissions: my.yml", "my.yml": RULES},
        {"agent.yml": INLINE},
        {"agent.py": PYTHON},
    ],
)
async def test_rules_of_a_folder_hold_for_its_agent(
    project: Project, files: dict[str, str]
) -> None:
    """E-286: an own tool is gated like any other, by the rules of its folder."""
    project.write({f"agents/shop/{name}": text for name, text in files.items()})
    async with run_project(project, call("price"), say("Seven.")) as running:
        assert await running.folders.check() == ()
        agent = await running.folders.open("shop", "one", tenant="acme")
        await running.say(agent, "How much?")
        assert running.results(agent) == ["seven"]
        scope = running.ctx[Permissions].scope_of(agent)
        assert scope == Scope("acme", "production", "shop")


async def test_a_folder_without_rules_denies_everything(project: Project) -> None:
    """E-289."""
    project.agent("shop")
    async with run_project(project, call("price"), say("No.")) as running:
        agent = await running.folders.open("shop", "one")
        await running.say(agent, "How much?")
        assert running.results(agent) == ["Error: denied: no rule matched - default"]


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (
            {"agent.yml": "systemPrompt: x", "permissions.yml": "ruls: []\n"},
            'agents/shop/permissions.yml:1:1 ruls: unknown key (did you mean "rules"?)',
        ),
        (
            {"agent.yml": INLINE.replace("decision: allow", "decison: allow")},
            "agents/shop/agent.yml:4:31 permissions.rules[0].decison: unknown key "
            '(did you mean "decision"?)',
        ),
        (
            {"agent.py": PYTHON.replace("'decision': 'allow'", "'decision': 'alow'")},
            "agents/shop/agent.py permissions.rules.0.decision: ",
        ),
    ],
)
async def test_faults_of_rules_are_faults_of_the_definition(
    project: Project, files: dict[str, str], line: str
) -> None:
    """E-272: with their place; the agent cannot be opened."""
    project.write({f"agents/shop/{name}": text for name, text in files.items()})
    async with run_project(project) as running:
        faults = [str(fault) for fault in await running.folders.check()]
        assert any(fault.startswith(line) for fault in faults), faults
        with pytest.raises(Exception, match="not available") as refused:
            await running.folders.open("shop", "one")
        assert faults[0] in str(refused.value)
        assert not isinstance(refused.value, HarnessConfigError)
