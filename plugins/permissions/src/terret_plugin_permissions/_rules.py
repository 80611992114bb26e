"""Rules, and the one pure function that decides by them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from pydantic import AliasChoices, Field, field_validator

from terret_context import Config

from ._scope import Scope
from ._when import Comparison

Decision: TypeAlias = Literal["allow", "ask", "deny"]
Rank: TypeAlias = tuple[int, int]

_STRICTNESS: Final[Mapping[Decision, int]] = {"deny": 0, "ask": 1, "allow": 2}


_DEFAULT: Final = AliasChoices("default", "defaultDecision", "default_decision")


class Rule(Config):
    """One rule: what is decided about calls that it matches."""

    name: str | None = Field(default=None, min_length=1)
    """What reasons and records call it."""
    scope: str = "*"
    """`*`, `tenant/environment` or `tenant/environment/agent`, each part with shell wildcards."""
    tool: str = Field(min_length=1)
    """Name of a tool, or a pattern with `*`."""
    decision: Decision
    """What is decided."""
    when: tuple[Comparison, ...] = ()
    """Comparisons of the arguments; all must hold."""
    editable: bool = False
    """Whether a person who is asked may change the arguments."""

    @field_validator("scope")
    @classmethod
    def _has_segments(cls, scope: str) -> str:
        segments = scope.split("/")
        if not all(segments):
            raise ValueError("a segment is empty: write * for all")
        if scope != "*" and len(segments) not in (2, 3):
            raise ValueError("write *, tenant/environment or tenant/environment/agent")
        if any("**" in segment for segment in segments):
            raise ValueError("** matches no more than *: write one segment for each part")
        return scope

    @property
    def title(self) -> str:
        """Its name, or what it matches."""
        return self.name or f"{self.scope} {self.tool}"

    @property
    def rank(self) -> Rank:
        """How specific it is: its scope first, then its tool; higher comes first."""
        return sum(map(_weight, self._segments)), _weight(self.tool)

    def matches(self, scope: Scope, tool: str, arguments: object) -> bool:
        """Whether it applies to a call."""
        parts = zip(scope.segments, self._segments, strict=False)
        return (
            all(_fits(segment, pattern) for segment, pattern in parts)
            and _fits(tool, self.tool)
            and all(each.holds(arguments) for each in self.when)
        )

    @property
    def _segments(self) -> Sequence[str]:
        return () if self.scope == "*" else self.scope.split("/")


class RuleSet(Config):
    """Rules and what is decided where none matches; the content of a `permissions.yml`."""

    default: Decision | None = Field(
        default=None,
        validation_alias=AliasChoices("default", "defaultDecision", "default_decision"),
    )
    """What is decided where no rule matches; left out, `ask`."""
    rules: tuple[Rule, ...] = ()
    """The rules; their order does not matter."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What rules say about a call, and why."""

    decision: Decision
    reason: str
    rule: Rule | None = None


def evaluate(
    rules: Iterable[Rule], default: Decision, scope: Scope, tool: str, arguments: object
) -> Verdict:
    """Decides about a call by rules alone.

    The most specific rules that match decide; of several, the strictest. A scope that could be
    mistaken for another one is denied.
    """
    if scope.fault is not None:
        return Verdict("deny", f"no rules for this scope: {scope.fault}")
    matching = [rule for rule in rules if rule.matches(scope, tool, arguments)]
    if not matching:
        return Verdict(default, "no rule matched - default")
    rule = min(matching, key=_order)
    return Verdict(rule.decision, f"matched rule '{rule.title}'", rule)


def explain(
    rules: Iterable[Rule], scope: Scope, tool: str, arguments: object
) -> tuple[tuple[Rule, bool], ...]:
    """Returns the rules for a tool in the order in which they are asked, and which match."""
    named = (rule for rule in rules if _fits(tool, rule.tool))
    return tuple((rule, rule.matches(scope, tool, arguments)) for rule in sorted(named, key=_order))


def _order(rule: Rule) -> tuple[int, int, int]:
    scope, tool = rule.rank
    return -scope, -tool, _STRICTNESS[rule.decision]


def _weight(pattern: str) -> int:
    if pattern == "*":
        return 0
    return 1 if any(mark in pattern for mark in "*?[") else 2


def _fits(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern) if _weight(pattern) < 2 else text == pattern
