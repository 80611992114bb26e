"""Tools for models: their registry, their schemas and the guarded pipeline that runs them."""

from ._call_log import CallLog
from ._calls import ToolExec, ToolRun
from ._decisions import (
    APPROVAL,
    Accept,
    Allow,
    Approval,
    ApprovalDecision,
    ApprovalOutcome,
    Ask,
    Block,
    Decision,
    Deny,
    Grounds,
    PostDecision,
)
from ._decorator import tool
from ._definition import Tool, ToolOutput
from ._errors import (
    ABORTED,
    ABORTED_BEFORE_DISPATCH,
    DENIED,
    INVALID_ARGS,
    INVALID_TOOL_OUTPUT,
    SKIPPED_SIBLING_DENIED,
    TOOL_OUTCOME_UNKNOWN,
    UNKNOWN_TOOL,
    ToolOverrunError,
    UnsupportedSchemaError,
)
from ._events import (
    CHANGE,
    DECIDED,
    EXECUTE,
    POST_EXECUTE,
    PRE_EXECUTE,
    RESULT,
    Decided,
    Executed,
)
from ._invocation import Invocation
from ._outcome import (
    ToolFailure,
    ToolOutcome,
    aborted_before_dispatch,
    failure,
    failure_from,
    success,
)
from ._scheduler import ToolScheduler
from ._service import Tools, ToolsConfig

__all__ = [
    "ABORTED",
    "ABORTED_BEFORE_DISPATCH",
    "APPROVAL",
    "CHANGE",
    "DECIDED",
    "DENIED",
    "EXECUTE",
    "INVALID_ARGS",
    "INVALID_TOOL_OUTPUT",
    "POST_EXECUTE",
    "PRE_EXECUTE",
    "RESULT",
    "SKIPPED_SIBLING_DENIED",
    "TOOL_OUTCOME_UNKNOWN",
    "UNKNOWN_TOOL",
    "Accept",
    "Allow",
    "Approval",
    "ApprovalDecision",
    "ApprovalOutcome",
    "Ask",
    "Block",
    "CallLog",
    "Decided",
    "Decision",
    "Deny",
    "Executed",
    "Grounds",
    "Invocation",
    "PostDecision",
    "Tool",
    "ToolExec",
    "ToolFailure",
    "ToolOutcome",
    "ToolOutput",
    "ToolOverrunError",
    "ToolRun",
    "ToolScheduler",
    "Tools",
    "ToolsConfig",
    "UnsupportedSchemaError",
    "aborted_before_dispatch",
    "failure",
    "failure_from",
    "success",
    "tool",
]
