import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from terret_llm import chunk_json, replace_surrogates

from ._errors import InvalidEventError, LosslessJsonError, UnknownEventTypeError
from ._event_types import event_type
from ._events import Replace, SessionEvent, SurfaceOp
from ._json import check_json, check_parsed, copy_json
from ._payloads import AssistantChunk
from ._reading import Fields
from ._sources import sources_from_wire


def event_to_json(event: SessionEvent) -> bytes:
    """The event as a row of the log: one line of UTF-8 JSON, without a line break.

    Raises InvalidEventError if the payload holds something JSON cannot carry, with its pointer.
    """
    view = event.view
    try:
        if type(view) is AssistantChunk:
            return _chunk_row(event, view).encode()
        return _dump({**_envelope(event), "data": event.data}).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEventError(event.type, _fault(event, error), seq=event.seq) from error


def event_row(event: SessionEvent) -> bytes:
    """As `event_to_json`, but what JSON cannot carry is replaced and the row is marked lossy.

    So one bad value never keeps the other events of a batch from the disk.
    """
    try:
        return event_to_json(event)
    except InvalidEventError:
        envelope = {**_envelope(event), "lossy": True}
        return _dump({**envelope, "data": _carried(event.data)}).encode()


def event_from_json(row: bytes | str) -> SessionEvent:
    """Read a row; raises InvalidEventError if it is not exactly an event of the current form."""
    try:
        data = from_json(row)
    except ValueError as error:
        raise InvalidEventError("(no event)", f"not JSON: {error}") from None
    return _read(data, check_parsed)


def event_from_wire(data: object) -> SessionEvent:
    """Read an event given as a plain JSON object, which is walked and copied.

    Raises LosslessJsonError, or InvalidEventError as `event_from_json` does.
    """
    return _read(data, copy_json)


def _read(data: object, walk: Callable[[object], Any]) -> SessionEvent:
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


def _chunk_row(event: SessionEvent, view: AssistantChunk) -> str:
    return (
        f'{{"type":"assistant/chunk","seq":{event.seq},"time":{event.time},"data":'
        f'{{"turn":{view.turn},"step":{view.step},"chunk":{chunk_json(view.chunk)}}}}}'
    )


def _envelope(event: SessionEvent) -> dict[str, object]:
    envelope: dict[str, object] = {"type": event.type, "seq": event.seq, "time": event.time}
    operation = event.surface_op
    if isinstance(operation, Replace):
        envelope["surfaceOp"] = {"op": "replace", "start": operation.start, "end": operation.end}
    elif operation is not None:
        envelope["surfaceOp"] = operation
    if event.sources is not None:
        envelope["sourceEventSeqs"] = event.sources.to_wire()
    if event.ignorable:
        envelope["ignorable"] = True
    return envelope


def _dump(row: dict[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _fault(event: SessionEvent, error: Exception) -> str:
    try:
        check_json(event.data)
    except LosslessJsonError as fault:
        return f"{fault.pointer}: {fault.reason}"
    return f"cannot be encoded: {error}"


def _carried(value: object) -> object:
    match value:
        case str():
            return replace_surrogates(value)
        case dict():
            return {replace_surrogates(str(key)): _carried(item) for key, item in value.items()}
        case list() | tuple():
            return [_carried(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float():
            return value
        case _:
            return replace_surrogates(repr(value))


_KEYS = ("type", "seq", "time", "data", "surfaceOp", "sourceEventSeqs", "ignorable", "lossy")
