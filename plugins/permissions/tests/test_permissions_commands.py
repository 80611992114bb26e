"""Rules about shell commands: each part is judged."""

import json
from typing import Any

import pytest

from terret_plugin_permissions import Rule, Scope, evaluate
from workspace import ROOT

VECTORS = ROOT.parent / "shared" / "data" / "faults" / "cases" / "vec-shell-policy.json"
ALLOW = ["git status", "git log *", "ls *", "echo *"]
DENY = ["rm *"]


def decided(command: object, allow: list[str] = ALLOW, deny: list[str] = DENY) -> str:
    made: list[Any] = [("allow", "allCommands", allow), ("deny", "anyCommand", deny)]
    rules = [
        Rule.model_validate(
            {
                "tool": "bash",
                "decision": decision,
                "when": [{"field": "command", "op": op, "value": patterns}],
            }
        )
        for decision, op, patterns in made
    ]
    return evaluate(rules, "ask", Scope("a", "b", "c"), "bash", {"command": command}).decision


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status", "allow"),
        ("git   log  --oneline", "allow"),
        ("ls -la && git status; echo done", "allow"),
        ("echo 'a && b' \"c; d\"", "allow"),
        ("echo a\\;b", "allow"),
        ("ls x | echo y", "allow"),
        ("git statusx", "ask"),
        ("git status && curl x", "ask"),
        ("git status\ncurl x", "ask"),
        ("ls a & curl x", "ask"),
        ("ls | tee /etc/x", "ask"),
        ("X=1 curl", "ask"),
        ("", "ask"),
        (5, "deny"),
        ("git status && rm -rf build", "deny"),
        ("git status\nrm -rf build", "deny"),
        ("ls ||rm a", "deny"),
        ("echo hi > /etc/passwd", "deny"),
        ("echo $(rm a)", "deny"),
        ("echo `rm a`", "deny"),
        ("(ls a)", "deny"),
        ("cat <(ls)", "deny"),
        ("echo 'open", "deny"),
    ],
)
def test_every_part_of_a_command_counts(command: object, expected: str) -> None:
    """B-260: Redirections and substitutions too; what cannot be taken apart is never allowed."""
    assert decided(command) == expected


def test_the_delivered_vectors() -> None:
    """B-260: What may run without being asked about."""
    if not VECTORS.exists():
        pytest.skip("the folder shared/data is not there")
    vectors = json.loads(VECTORS.read_text("utf-8"))
    wrong = [
        case["cmd"]
        for case in vectors["cases"]
        if (decided(case["cmd"], vectors["allow"], vectors["deny"]) == "allow")
        is not case["auto_allowed"]
    ]
    assert wrong == []
