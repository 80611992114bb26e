"""Why a decision did not count; the item stays open."""

from terret_llm import HarnessError


class NotEditableError(HarnessError):
    """Arguments were changed where that is not allowed."""

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        super().__init__(
            f"the arguments of {item_id} cannot be changed: allow it as it is, or deny it",
            "NOT_EDITABLE",
        )


class InvalidEditError(HarnessError):
    """Changed arguments do not fit the tool."""

    def __init__(self, item_id: str, problem: str) -> None:
        self.item_id = item_id
        self.problem = problem
        super().__init__(problem, "INVALID_ARGS")


class EditDeniedError(HarnessError):
    """A policy denies the call with its changed arguments."""

    def __init__(self, item_id: str, reason: str) -> None:
        self.item_id = item_id
        self.reason = reason
        super().__init__(f"the changed call is denied: {reason}", "EDIT_DENIED")
