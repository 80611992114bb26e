"""What the page about policies says holds."""

import re
from pathlib import Path

from terret_loader import check_document
from terret_plugin_permissions import PermissionsConfig, Scope, evaluate
from workspace import ROOT

PAGE = ROOT / "docs" / "concepts" / "policies.md"


def shown() -> str:
    found = re.search(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_rules_shown_decide_as_the_page_says(tmp_path: Path) -> None:
    """E-303, E-304: The most specific scope wins, wherever it stands."""
    path = tmp_path / "harness.yml"
    path.write_text(shown(), "utf-8")
    plan = check_document(path, env={})
    assert plan.faults == ()
    (entry,) = [each for each in plan.entries if each.id == "permissions"]
    rules = PermissionsConfig.model_validate(entry.config).rules

    def decided(agent: str, environment: str, tool: str, amount: int) -> str:
        scope = Scope("acme", environment, agent)
        return evaluate(rules, "ask", scope, tool, {"amount": amount}).decision

    assert decided("shop", "production", "issue_refund", 20) == "allow"
    assert decided("shop", "production", "issue_refund", 21) == "ask"
    assert decided("desk", "production", "issue_refund", 1) == "ask"
    assert decided("desk", "staging", "read_orders", 0) == "allow"
