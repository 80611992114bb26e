"""What the container itself notifies of."""

import logging
from dataclasses import dataclass
from typing import Final

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
