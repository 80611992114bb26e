"""The states of a fiber, which may follow which, and why it was loaded again."""

from enum import Enum
from typing import NamedTuple


class FiberState(Enum):
    """Where a fiber is in its life."""

    successors: "tuple[FiberState, ...]"

    PENDING = "PENDING"
    LOADING = "LOADING"
    ACTIVE = "ACTIVE"
    UNLOADING = "UNLOADING"
    FAILED = "FAILED"
    DISPOSED = "DISPOSED"


PENDING, LOADING, ACTIVE, UNLOADING, FAILED, DISPOSED = FiberState
PENDING.successors = (LOADING, FAILED, UNLOADING, DISPOSED, ACTIVE)  # ACTIVE: root has no body
LOADING.successors = (ACTIVE, UNLOADING)
ACTIVE.successors = (UNLOADING,)
UNLOADING.successors = (DISPOSED, FAILED, LOADING, PENDING)
FAILED.successors = (LOADING, PENDING, UNLOADING, DISPOSED)
DISPOSED.successors = ()


class Restart(NamedTuple):
    """A load of a fiber that had been loaded before."""

    at: float
    cause: str
    requested: bool
