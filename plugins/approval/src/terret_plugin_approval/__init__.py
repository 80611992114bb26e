"""Asks people whether a tool call may run; an answer may change its arguments."""

from terret_tools import ApprovalDecision

from ._errors import EditDeniedError, InvalidEditError, NotEditableError
from ._items import REQUEST, ApprovalItem
from ._service import ApprovalConfig, Approvals

__all__ = [
    "REQUEST",
    "ApprovalConfig",
    "ApprovalDecision",
    "ApprovalItem",
    "Approvals",
    "EditDeniedError",
    "InvalidEditError",
    "NotEditableError",
]
