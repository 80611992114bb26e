"""The preset `service`: each plugin can go, and the rest works as it says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from programs import new_project

Run = Callable[..., tuple[int, str, str]]
CALL = 'use add {"a": 1, "b": 2}'


@pytest.fixture
def events(terret: Run, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs a turn with a call in a new project; gives its events, below their types."""
    new_project(tmp_path)

    def run(*flags: str, decision: str = "allow") -> list[dict[str, Any]]:
        rules = tmp_path / "agents/main/permissions.yml"
        rules.write_text(f"rules: [{{scope: '*', tool: add, decision: {decision}}}]")
        code, out, err = terret("run", "--json", *flags, CALL)
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    return run


def one(events: list[dict[str, Any]], type: str) -> dict[str, Any]:
    (found,) = [event for event in events if event["type"] == type]
    return found


def test_all_of_it_decides_measures_and_answers(events: Any) -> None:
    """E-547: nothing is missing."""
    found = events()
    assert one(found, "actauth:decision")["reason"] == "matched rule '* add'"
    assert found[1]["type"] == "budget:check"
    assert found[1]["budgetTokens"] > 0
    assert found[-1] == {"type": "done", "text": "Old: 3.0"}


def test_without_permissions_every_call_is_allowed_and_recorded(events: Any) -> None:
    """E-547."""
    found = events("--set", "permissions=null", decision="deny")
    assert one(found, "actauth:decision")["decision"] == "allow"
    assert found[-1]["text"] == "Old: 3.0"


def test_without_approval_to_ask_is_to_deny(events: Any) -> None:
    """E-547: the model is told, and the turn goes on."""
    found = events("--set", "approval=null", decision="ask")
    assert one(found, "actauth:decision")["decision"] == "deny"
    assert one(found, "tool:result")["statusText"] == "Denied."
    assert found[-1]["type"] == "done"
    assert "stopReason" not in found[-1]


def test_without_budget_each_model_call_is_still_announced(events: Any) -> None:
    """E-547."""
    checks = [each for each in events("--set", "budget=null") if each["type"] == "budget:check"]
    assert [check["action"] for check in checks] == ["ok", "ok"]


@pytest.mark.parametrize(
    "name",
    ["checkpoint-policy", "llm-retry", "token-meter", "tool-decisions", "tool-timeout", "http"],
)
def test_what_else_is_removed_leaves_a_turn_that_runs(events: Any, name: str) -> None:
    """E-547."""
    assert events("--set", f"{name}=null")[-1] == {"type": "done", "text": "Old: 3.0"}


def test_the_environment_is_a_part_of_scopes_and_sessions(
    terret: Run, events: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERRET_ENV", "staging")
    events()
    (stored,) = (tmp_path / ".terret/sessions").glob("*/")
    assert unquote(stored.name).startswith("default:staging:main:")
    rules = tmp_path / "agents/main/permissions.yml"
    rules.write_text("rules: [{scope: '*/staging', tool: add, decision: deny, name: not-here}]")
    code, out, _ = terret("run", "--json", CALL)
    decision = one([json.loads(line) for line in out.splitlines()], "actauth:decision")
    assert (code, decision["reason"]) == (0, "matched rule 'not-here'")


def test_a_model_without_key_fails_at_the_first_call_and_says_so(
    terret: Run, tmp_path: Path
) -> None:
    """E-279."""
    (tmp_path / "agents").mkdir()
    assert terret("add-agent", "shop")[0] == 0
    code, out, err = terret("run", "Hello")
    assert (code, out) == (1, "")
    assert "ANTHROPIC_API_KEY" in err
