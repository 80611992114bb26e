"""Codes and errors of the tools."""

from dataclasses import dataclass
from typing import Final

from terret_llm import HarnessError

DENIED: Final = "DENIED"
SKIPPED_SIBLING_DENIED: Final = "SKIPPED_SIBLING_DENIED"
"""A person denied another call of the same answer; this one was neither decided nor run."""
UNKNOWN_TOOL: Final = "UNKNOWN_TOOL"
INVALID_ARGS: Final = "INVALID_ARGS"
INVALID_TOOL_OUTPUT: Final = "INVALID_TOOL_OUTPUT"
ABORTED: Final = "ABORTED"
ABORTED_BEFORE_DISPATCH: Final = "ABORTED_BEFORE_DISPATCH"
TOOL_OUTCOME_UNKNOWN: Final = "TOOL_OUTCOME_UNKNOWN"


class UnsupportedSchemaError(HarnessError, ValueError):
    """A tool's schema cannot be used; `pointer` is the JSON pointer of the reason in it."""

    def __init__(self, tool: str, part: str, pointer: str, problem: str) -> None:
        self.tool = tool
        self.part = part
        self.pointer = pointer
        super().__init__(
            f'tool "{tool}": {part} schema at "{pointer}": {problem}', "UNSUPPORTED_SCHEMA"
        )


class ToolOverrunError(HarnessError, TimeoutError):
    """The thread of a cancelled tool did not end in time and was left behind."""

    def __init__(self, tool: str, grace: float) -> None:
        self.tool = tool
        self.grace = grace
        super().__init__(
            f'tool "{tool}" was cancelled and its thread still runs after {grace:g} s; '
            "let it poll `run.cancelled`",
            TOOL_OUTCOME_UNKNOWN,
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a value does not match its schema."""

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}"


class ViolationError(ValueError):
    """A value does not match its schema; `violations` says where."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = violations
