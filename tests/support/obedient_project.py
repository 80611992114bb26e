"""A project with an agent that does what it is told; some of it only if a person agrees."""

from pathlib import Path

import obedient_plugin

HARNESS = f"""
extends: [service]
plugins:
  obedient: {{use: "{obedient_plugin.__file__}"}}
  permissions: {{audit: "off"}}
"""
AGENT = "{systemPrompt: Obey., model: {provider: obedient, model: m}, maxTurns: 3}\n"
RULES = "{default: allow, rules: [{name: careful, tool: refund, decision: ask, editable: true}]}\n"
REFUND = 'refund {"order": "A-77", "amount": 250}'


def write_obedient(folder: Path, *agents: str, more: str = "") -> Path:
    """Writes a project with these agents, `shop` if none is named; `more` goes below `plugins`."""
    (folder / "harness.yml").write_text(HARNESS + more)
    for name in agents or ("shop",):
        home = folder / "agents" / name
        home.mkdir(parents=True)
        (home / "agent.yml").write_text(AGENT)
        (home / "permissions.yml").write_text(RULES)
    return folder
