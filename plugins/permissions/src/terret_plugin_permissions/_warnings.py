"""What looks like a mistake in rules that are valid."""

from collections.abc import Iterable, Mapping, Sequence

from ._rules import Rule


def warnings_of(
    rules: Sequence[Rule], schemas: Mapping[str, Mapping[str, object]]
) -> tuple[str, ...]:
    """Names rules that rivals of equal rank beat because they look at an argument nobody gives."""
    return tuple(_warnings(rules, schemas))


def _warnings(rules: Sequence[Rule], schemas: Mapping[str, Mapping[str, object]]) -> Iterable[str]:
    for rule in rules:
        properties = schemas.get(rule.tool, {}).get("properties")
        rivals = [other for other in rules if _rivals(rule, other)]
        if not rivals or not isinstance(properties, Mapping):
            continue
        for comparison in rule.when:
            if comparison.field.partition(".")[0] not in properties:
                yield (
                    f"rule '{rule.title}' looks at {comparison.field}, which {rule.tool} does not "
                    f"take, and rule '{rivals[0].title}' of equal rank decides otherwise"
                )


def _rivals(rule: Rule, other: Rule) -> bool:
    same = (rule.tool, rule.rank) == (other.tool, other.rank)
    return same and rule.decision != other.decision
