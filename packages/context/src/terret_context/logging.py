"""The logger that each fiber binds once."""

import logging
from collections.abc import MutableMapping
from reprlib import Repr
from typing import Any, Final

from ._fiber import Fiber

_REPR: Final = Repr()
_REPR.maxstring = _REPR.maxother = 200


def logger_for(fiber: Fiber) -> Any:
    """Returns the structlog logger of a fiber, bound to `plugin`, `entry` and `fiber` (uid).

    Its records go to the logger `terret` of Python's logging: as text with their data, and as a
    mapping in the attribute `terret`. structlog is imported here, on first use, since its developer
    output imports rich.
    """
    if fiber.logger is None:
        import structlog

        entry = None if fiber.entry is None else str(fiber.entry)
        fiber.logger = structlog.wrap_logger(
            logging.getLogger("terret"),
            processors=[structlog.contextvars.merge_contextvars, _as_arguments],
            wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        ).bind(plugin=fiber.name, entry=entry, fiber=fiber.uid)
    return fiber.logger


def _as_arguments(_: object, method: str, data: MutableMapping[str, Any]) -> dict[str, Any]:
    """Turns a record of structlog into the arguments of a logger of Python."""
    error = data.pop("exc_info", None)
    return {"msg": _Text(data), "exc_info": error, "extra": {"terret": dict(data)}}


class _Text:
    """The text of a record, made when a handler asks for it."""

    def __init__(self, data: MutableMapping[str, Any]) -> None:
        self._data = data

    def __str__(self) -> str:
        bound = ("event", "plugin", "entry", "fiber")
        more = [
            f"{key}={_REPR.repr(value)}" for key, value in self._data.items() if key not in bound
        ]
        return " ".join([str(self._data.get("event")), *more])
