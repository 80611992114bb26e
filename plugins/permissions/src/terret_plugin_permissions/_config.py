"""The settings of the plugin."""

from pathlib import Path
from typing import Literal

from pydantic import field_validator

from terret_context import Config

from ._audit import ArgumentsForm
from ._rules import Decision, Rule
from ._scope import segment_fault


class PermissionsConfig(Config):
    """Settings of the entry `permissions`."""

    rules: tuple[Rule, ...] = ()
    """Rules for every agent; they rank like the agent's own."""
    default: Decision | None = None
    """What is decided where no rule matches, for agents without rules of their own.

    Left out: `ask` if there are rules here, else `deny`.
    """
    tenant: str = "default"
    """Tenant of agents that belong to none."""
    environment: str = "production"
    """Environment of this harness."""
    gate_system_tools: bool = False
    """Whether rules decide about system tools too."""
    audit: ArgumentsForm | Literal["off"] = "digest"
    """What the audit keeps of arguments; `off` for no audit."""
    audit_folder: Path = Path(".terret/audit")
    """Folder of the audit, one file a day."""
    audit_failure: Literal["report", "deny"] = "report"
    """Whether a call may run whose decision could not be written."""

    @field_validator("tenant", "environment")
    @classmethod
    def _segment(cls, value: str) -> str:
        problem = segment_fault(value)
        if problem:
            raise ValueError(f"it {problem}")
        return value
