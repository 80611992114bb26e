"""How far the service is."""

from enum import StrEnum


class Status(StrEnum):
    """How far the service is between start and end."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    DRAINED = "drained"
