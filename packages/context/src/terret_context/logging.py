"""The logger that each fiber binds once."""

from typing import Any

from ._fiber import Fiber


def logger_for(fiber: Fiber) -> Any:
    """Returns the structlog logger of a fiber, bound to `plugin`, `entry` and `fiber` (uid).

    structlog is imported here, on first use, since its developer output imports rich.
    """
    if fiber.logger is None:
        import structlog

        entry = None if fiber.entry is None else str(fiber.entry)
        fiber.logger = structlog.get_logger("terret").bind(
            plugin=fiber.name, entry=entry, fiber=fiber.uid
        )
    return fiber.logger
