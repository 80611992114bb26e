"""Whose rules apply: tenant, environment and agent, three texts that are never joined."""

import re
from dataclasses import dataclass

_FORBIDDEN = re.compile(r"[/*?\[\]:\x00-\x1f\x7f]")
_MAX_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose rules apply to a call."""

    tenant: str
    environment: str
    agent: str

    @property
    def segments(self) -> tuple[str, str, str]:
        """The three parts, in the order in which patterns name them."""
        return self.tenant, self.environment, self.agent

    @property
    def fault(self) -> str | None:
        """Why no rule may be asked about this scope, or `None`."""
        names = ("tenant", "environment", "agent")
        faults = (
            f"the {name} {problem}"
            for name, segment in zip(names, self.segments, strict=True)
            if (problem := segment_fault(segment))
        )
        return next(faults, None)

    def to_wire(self) -> dict[str, str]:
        return {"tenant": self.tenant, "environment": self.environment, "agent": self.agent}


def segment_fault(segment: str) -> str | None:
    """Says why a text is no segment of a scope, or gives `None`."""
    if not segment:
        return "is empty"
    if len(segment) > _MAX_LENGTH:
        return f"is longer than {_MAX_LENGTH} characters"
    found = _FORBIDDEN.search(segment)
    return f"holds {found[0]!r}, which separates or matches" if found else None
