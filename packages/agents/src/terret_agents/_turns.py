"""How a turn ends, and what can be cancelled."""

from dataclasses import dataclass

import anyio

from terret_sessions import CancelCause, TurnEndReason


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn ended.

    Attributes:
        reason: what the log says of it.
        parks: whether remaining input waits for the next wake.
        terminal: whether next-step input that came meanwhile is discarded.
    """

    reason: TurnEndReason
    parks: bool = False
    terminal: bool = False


class Activity:
    """One thing that can be cancelled: a turn or a maintenance job."""

    __slots__ = ("cause", "maintenance", "scope")

    def __init__(self, *, maintenance: bool = False) -> None:
        self.cause: CancelCause | None = None
        self.maintenance = maintenance
        self.scope = anyio.CancelScope()


def sole_error(error: Exception) -> Exception:
    """Returns the member of a group of one, however deep, else the error itself."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
