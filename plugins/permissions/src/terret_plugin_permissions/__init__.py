"""Rules that allow, deny or ask about tool calls, by tenant, environment, agent and tool."""

from ._config import PermissionsConfig
from ._rules import Rule, RuleSet, Verdict, evaluate, explain
from ._scope import Scope, segment_fault
from ._service import Permissions, RulesStatus
from ._sources import RuleSource
from ._when import Comparison

__all__ = [
    "Comparison",
    "Permissions",
    "PermissionsConfig",
    "Rule",
    "RuleSet",
    "RuleSource",
    "RulesStatus",
    "Scope",
    "Verdict",
    "evaluate",
    "explain",
    "segment_fault",
]
