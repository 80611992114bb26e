"""What the container itself notifies of, and how it contains failures."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ._dispatch import Listener, Table, emit, select
from ._effects import flatten
from ._events import Emit
from ._fiber import Fiber
from ._realms import Realm
from ._states import FiberState

log: Final = logging.getLogger("terret")


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A fiber went from one state to another."""

    fiber: Fiber
    old: FiberState
    new: FiberState


@dataclass(frozen=True, slots=True)
class ServiceChange:
    """An offered object came, from its `provider`, or went (`None`)."""

    key: str
    realm: Realm | None
    provider: Fiber | None


@dataclass(frozen=True, slots=True)
class ContainedError:
    """A failure that stopped nothing else."""

    fiber: Fiber
    label: str
    error: BaseException


INTERNAL_PLUGIN = Emit[Fiber]("internal/plugin", doc="A plugin was mounted; it has no target yet.")
INTERNAL_STATUS = Emit[StatusChange]("internal/status", doc="A fiber changed its state.")
INTERNAL_SERVICE = Emit[ServiceChange]("internal/service", doc="A service came, went or moved.")
INTERNAL_ERROR = Emit[ContainedError]("internal/error", doc="A failure was contained, once each.")


def contain(tables: Mapping[str, Table], fiber: Fiber, error: BaseException, label: str) -> None:
    """Gives a failure to the log, each member of a group by itself, and to `internal/error`."""
    for leaf in flatten([error]) if isinstance(error, Exception) else (error,):
        log.error(
            "%s of %s failed: %s: %s",
            *(label, fiber, type(leaf).__name__, leaf),
            exc_info=leaf,
            extra={"plugin": fiber.name, "fiber": fiber.uid},
        )
    listeners = select(tables, INTERNAL_ERROR.name).listeners
    emit(listeners, (ContainedError(fiber, label, error),), _listener_failed)


def _listener_failed(listener: Listener, error: Exception) -> None:
    """A failure of such a listener is only logged: it must not be reported for ever."""
    log.error("%s of %s failed: %r", listener.label, listener.owner, error, exc_info=error)
