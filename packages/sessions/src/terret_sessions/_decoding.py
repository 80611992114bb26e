from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from ._errors import (
    InvalidEventError,
    LosslessJsonError,
    UnknownEventTypeError,
    UnreadableRowError,
)
from ._event_types import event_type, plain_object
from ._events import Replace, SessionEvent, SurfaceOp
from ._json import MAX_DEPTH, check_parsed, copy_json
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


def read_payload(type: str, seq: int, data: object, *, ignorable: bool) -> Any:
    """The payload of an event that is to be appended, of plain data, which is walked and copied."""
    declared = event_type(type)
    if declared is None and not ignorable:
        raise UnknownEventTypeError(type, seq=seq)
    try:
        plain = copy_json(data, max_depth=MAX_DEPTH)
        return plain_object(plain) if declared is None else declared.decode(plain)
    except LosslessJsonError as error:
        raise LosslessJsonError(error.pointer, error.reason, event_type=type) from None
    except ValueError as error:
        raise InvalidEventError(type, str(error), seq=seq) from None


def parse_row(row: bytes | str) -> object:
    try:
        return from_json(row)
    except ValueError as error:
        raise UnreadableRowError("row", f"not JSON: {error}") from None


def read_event(data: object, *, walk: Callable[[object], Any] = check_parsed) -> SessionEvent:
    """Read an event that was parsed; by default nothing of it is copied."""
    try:
        return _read(walk(data))
    except LosslessJsonError as error:
        name, _ = _place(data)
        raise LosslessJsonError(error.pointer, error.reason, event_type=name) from None
    except InvalidEventError:
        raise
    except ValueError as error:
        name, seq = _place(data)
        raise InvalidEventError(name, str(error), seq=seq) from None


def _read(wire: Any) -> SessionEvent:
    if not _is_usual(wire):
        return _read_marked(Fields(wire, "event", *_KEYS))
    name, seq = wire["type"], wire["seq"]
    declared = event_type(name)
    if declared is None:
        raise UnknownEventTypeError(name, seq=seq)
    return SessionEvent(
        name, seq, wire["time"], declared.decode(wire["data"]), wire.get("surfaceOp")
    )


def _is_usual(wire: Any) -> bool:
    """Whether it has nothing but what nearly all events have, which is quickly read."""
    try:
        seq, time = wire["seq"], wire["time"]
        return (
            seq.__class__ is time.__class__ is int
            and seq >= 0 <= time
            and wire["type"].__class__ is str
            and wire["data"].__class__ is dict
            and (len(wire) == 4 or (len(wire) == 5 and wire.get("surfaceOp") == "append"))
        )
    except (KeyError, TypeError):
        return False


def _read_marked(read: Fields) -> SessionEvent:
    name, seq, time = read.text("type"), read.count("seq"), read.count("time")
    declared = event_type(name)
    ignorable = read.marker("ignorable")
    read.marker("lossy")
    if declared is None and not ignorable:
        raise UnknownEventTypeError(name, seq=seq)
    plain = read.mapping("data")
    return SessionEvent(
        name,
        seq,
        time,
        plain if declared is None else declared.decode(plain),
        _surface_op(read.get("surfaceOp")) if "surfaceOp" in read else None,
        sources_from_wire(read.get("sourceEventSeqs")) if "sourceEventSeqs" in read else None,
        ignorable,
    )


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
