"""The states of a fiber, and which may follow which."""

from enum import Enum


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
