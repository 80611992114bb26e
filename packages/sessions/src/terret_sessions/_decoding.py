from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from ._errors import (
    InvalidEventError,
    LosslessJsonError,
    UnknownEventTypeError,
    UnreadableRowError,
)
from ._event_types import event_type
from ._events import Replace, SessionEvent, SurfaceOp
from ._json import check_parsed, copy_json
from ._reading import Fields
from ._sources import sources_from_wire


def event_from_json(row: bytes | str) -> SessionEvent:
    """Read a row; raises InvalidEventError if it is not exactly an event of the current form.

    That is an UnreadableRowError if the row is no JSON at all.
    """
    return read_event(parse_row(row))


def event_from_wire(data: object) -> SessionEvent:
    """Read an event given as a plain JSON object, which is walked and copied.

    Raises LosslessJsonError, or InvalidEventError as `event_from_json` does.
    """
    return read_event(data, walk=copy_json)


def parse_row(row: bytes | str) -> object:
    try:
        return from_json(row)
    except ValueError as error:
        raise UnreadableRowError("(no event)", f"not JSON: {error}") from None


def read_event(data: object, *, walk: Callable[[object], Any] = check_parsed) -> SessionEvent:
    """Read an event that was parsed; by default nothing of it is copied."""
    name, seq = _place(data)
    try:
        read = Fields(walk(data), "event", *_KEYS)
        declared = event_type(name)
        ignorable = read.marker("ignorable")
        read.marker("lossy")
        if declared is None and not ignorable:
            raise UnknownEventTypeError(name, seq=seq)
        plain = read.mapping("data")
        return SessionEvent(
            read.text("type"),
            read.count("seq"),
            read.count("time"),
            plain if declared is None else declared.decode(plain),
            _surface_op(read.get("surfaceOp")) if "surfaceOp" in read else None,
            sources_from_wire(read.get("sourceEventSeqs")) if "sourceEventSeqs" in read else None,
            ignorable,
        )
    except LosslessJsonError as error:
        raise LosslessJsonError(error.pointer, error.reason, event_type=name) from None
    except InvalidEventError:
        raise
    except ValueError as error:
        raise InvalidEventError(name, str(error), seq=seq) from None


def _place(data: object) -> tuple[str, int | None]:
    """Type and seq for messages, as far as they can be read."""
    fields = data if isinstance(data, Mapping) else {}
    name, seq = fields.get("type"), fields.get("seq")
    return name if isinstance(name, str) else "(no type)", seq if isinstance(seq, int) else None


def _surface_op(wire: object) -> SurfaceOp:
    if wire == "append":
        return "append"
    read = Fields(wire, "surfaceOp", "op", "start", "end")
    read.choice("op", {"replace": None})
    return Replace(read.count("start"), read.count("end"))


_KEYS = ("type", "seq", "time", "data", "surfaceOp", "sourceEventSeqs", "ignorable", "lossy")
