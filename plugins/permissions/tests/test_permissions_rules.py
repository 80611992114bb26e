"""Rules without a harness: what matches, and what decides."""

from typing import Any

import pytest
from pydantic import ValidationError

from terret_plugin_permissions import (
    Comparison,
    Permissions,
    Rule,
    RuleSet,
    Scope,
    evaluate,
    explain,
    segment_fault,
)

SHOP = Scope("acme", "production", "shop")


def rule(decision: str = "allow", scope: str = "*", tool: str = "*", **more: Any) -> Rule:
    return Rule.model_validate({"decision": decision, "scope": scope, "tool": tool, **more})


def decided(*rules: Rule, scope: Scope = SHOP, tool: str = "buy", **arguments: object) -> str:
    return evaluate(rules, "deny", scope, tool, arguments).decision


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*", True),
        ("acme/production", True),
        ("acme/*", True),
        ("*/production/shop", True),
        ("a?me/prod*/sh[no]p", True),
        ("*/*/*", True),
        ("acme/staging", False),
        ("Acme/production", False),
        ("acme/production/sho", False),
        ("*shop/*", False),
        ("acme*/shop", False),
    ],
)
def test_a_scope_is_matched_segment_by_segment(pattern: str, matches: bool) -> None:
    """E-300, E-301, E-302: A wildcard never reaches the next segment."""
    assert decided(rule(scope=pattern)) == ("allow" if matches else "deny")


@pytest.mark.parametrize("pattern", ["", "acme", "acme/", "/x", "a//b", "a/b/c/d", "**/x", "a/**"])
def test_other_scopes_are_refused(pattern: str) -> None:
    """E-302: One, two or three segments, none of them empty or **."""
    with pytest.raises(ValidationError):
        rule(scope=pattern)


@pytest.mark.parametrize("segment", ["a/b", "a*", "?", "[x]", "a:b", "", "a\nb", "x" * 101])
def test_a_segment_that_could_be_mistaken_enters_no_rule(segment: str) -> None:
    """E-300, E-316: Refused where it enters, and by the evaluator."""
    assert segment_fault(segment) is not None
    for scope in (Scope(segment, "b", "c"), Scope("a", segment, "c"), Scope("a", "b", segment)):
        verdict = evaluate([rule()], "allow", scope, "buy", {})
        assert (verdict.decision, verdict.rule) == ("deny", None)


def test_two_tenants_and_two_environments_have_decisions_of_their_own() -> None:
    """E-315: The same call."""
    rules = [rule("allow", "acme/staging"), rule("ask", "acme/production"), rule("deny", "evil/*")]
    scopes = [("acme", "staging"), ("acme", "production"), ("evil", "staging"), ("new", "staging")]
    found = [decided(*rules, scope=Scope(*each, "shop")) for each in scopes]
    assert found == ["allow", "ask", "deny", "deny"]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([("deny", "*", "buy"), ("allow", "acme/production/shop", "*")], "allow"),
        ([("deny", "*/production", "buy"), ("allow", "acme/production", "*")], "allow"),
        ([("deny", "acm*/production", "*"), ("allow", "acme/production", "*")], "allow"),
        ([("deny", "*", "*"), ("allow", "*", "b*")], "allow"),
        ([("deny", "*", "b*"), ("allow", "*", "buy")], "allow"),
        ([("ask", "*", "buy"), ("allow", "*", "buy")], "ask"),
        ([("deny", "*", "buy"), ("ask", "*", "buy")], "deny"),
        ([("allow", "*/production", "buy"), ("deny", "acme/*", "buy")], "deny"),
    ],
)
def test_the_most_specific_rules_decide_and_the_strictest_of_them(
    rules: list[tuple[str, str, str]], expected: str, turned: bool
) -> None:
    """E-303, E-304, E-306: The scope first, then the tool; their place never matters."""
    made = [rule(*each) for each in (reversed(rules) if turned else rules)]
    assert decided(*made) == expected


def test_a_pattern_reaches_a_whole_source_of_tools() -> None:
    """E-306: Exact names rank first."""
    rules = [rule("ask", tool="tracker_*"), rule("deny", tool="tracker_delete")]
    tools = ["tracker_search", "tracker_delete", "other"]
    assert [decided(*rules, tool=each) for each in tools] == ["ask", "deny", "deny"]


def test_another_tool_of_the_same_power_is_not_allowed_with_it() -> None:
    """B-263: What is not named is decided by the default, whoever registers it."""
    assert decided(rule(tool="bash"), tool="exec") == "deny"


ARGUMENTS: dict[str, object] = {
    "n": 5, "text": "abc", "flag": True, "list": [1, "a"], "deep": {"x": {"y": 1.5}}, "none": None
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "op", "value", "holds"),
    [
        ("n", "eq", 5, True), ("n", "eq", 5.0, True), ("n", "eq", "5", False),
        ("n", "ne", 6, True), ("n", "ne", 5, False), ("n", "ne", "5", False),
        ("n", "gt", 4, True), ("n", "gt", 5, False), ("n", "gte", 5, True), ("n", "lt", 5, False),
        ("n", "lte", 5, True), ("n", "gt", "4", False), ("text", "lt", "b", True),
        ("flag", "eq", True, True), ("flag", "eq", 1, False), ("flag", "gt", False, False),
        ("n", "in", [4, 5], True), ("text", "in", ["x"], False), ("n", "in", ["5"], False),
        ("flag", "in", [1], False), ("text", "contains", "bc", True), ("n", "contains", 5, False),
        ("list", "contains", "a", True), ("list", "contains", 2, False),
        ("text", "contains", 1, False), ("list", "eq", [1, "a"], True), ("list", "ne", [1], True),
        ("deep", "eq", {"x": {"y": 1.5}}, True), ("deep.x.y", "lt", 2, True),
        ("deep.x.z", "eq", 1, False), ("deep.x.z", "ne", 1, False), ("n.x", "eq", 5, False),
        ("none", "eq", None, True), ("none", "exists", True, True), ("gone", "exists", True, False),
        ("gone", "exists", False, True), ("n", "exists", False, False),
    ],
)  # fmt: skip
def test_comparisons_hold_for_like_types_only(
    field: str, op: str, value: object, holds: bool
) -> None:
    """E-307, E-308: An absent argument and unlike types are false, also for ne."""
    comparison = Comparison.model_validate({"field": field, "op": op, "value": value})
    assert comparison.holds(ARGUMENTS) is holds
    assert comparison.holds("no object") is (op == "exists" and value is False)


def test_all_comparisons_of_a_rule_must_hold() -> None:
    """E-307: An empty list always holds."""
    large = {"field": "amount", "op": "gt", "value": 20}
    euro = {"field": "currency", "op": "eq", "value": "EUR"}
    both = rule("ask", tool="buy", when=[large, euro])
    assert decided(both, rule(), amount=30, currency="EUR") == "ask"
    assert decided(both, rule(), amount=30, currency="USD") == "allow"
    assert decided(rule("ask", when=[]), amount=1) == "ask"


@pytest.mark.parametrize(
    "when",
    [
        {"field": "a", "op": "eq", "value": 1},
        [{"field": "a", "op": "like", "value": 1}],
        [{"field": "a", "op": "eq"}],
        [{"op": "eq", "value": 1}],
        [{"field": "a", "op": "in", "value": "x"}],
        [{"field": "a", "op": "exists", "value": 1}],
        [{"field": "a", "op": "eq", "value": 1, "not": True}],
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(when: object) -> None:
    """E-307, E-309: Unknown operators, missing keys, a mapping in place of the list."""
    with pytest.raises(ValidationError):
        rule(when=when)


def test_the_reason_names_the_rule_or_what_it_matches() -> None:
    """E-311: Or that none did."""
    named = evaluate([rule(name="all")], "deny", SHOP, "buy", {})
    unnamed = evaluate([rule(scope="*/production")], "deny", SHOP, "buy", {})
    default = evaluate([], "ask", SHOP, "buy", {})
    assert [each.reason for each in (named, unnamed, default)] == [
        "matched rule 'all'",
        "matched rule '*/production *'",
        "no rule matched - default",
    ]


def test_candidates_are_explained_in_order() -> None:
    """E-318: Those for the tool, the deciding one first; nothing is changed by asking."""
    rules = [rule("deny", name="low"), rule("allow", name="high", tool="buy")]
    rules += [rule("deny", name="never", tool="sell")]
    found = explain(rules, SHOP, "buy", {})
    assert [(each.name, matches) for each, matches in found] == [("high", True), ("low", True)]
    assert explain(rules, SHOP, "buy", {}) == found


def test_the_other_spelling_of_the_default_is_read() -> None:
    """E-310: `default_decision`."""
    assert RuleSet.model_validate({"default_decision": "allow"}).default == "allow"
    assert Permissions.__name__ == "Permissions"
