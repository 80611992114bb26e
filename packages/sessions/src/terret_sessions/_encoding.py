import math
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Final

from pydantic_core import to_json

from terret_llm import (
    Message,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    chunk_json,
    replace_surrogates,
)

from ._chunk_rows import run_lines
from ._chunk_runs import CHUNK, ChunkRun
from ._errors import InvalidEventError, LosslessJsonError
from ._events import Replace, SessionEvent, wire_data
from ._json import MAX_INT, check_json
from ._payloads import (
    AssistantChunk,
    AssistantMessage,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from ._records import EndSeed, InboxSpliced, RequestContext, RequestHeader
from ._views import EventsView


def event_to_json(event: SessionEvent) -> bytes:
    """The event as a row of the log: one line of UTF-8 JSON, without a line break.

    Raises InvalidEventError if the payload holds something JSON cannot carry, with its pointer.
    """
    view = event.view
    try:
        if isinstance(view, AssistantChunk) and view.chunk.__class__ in _DELTAS:
            return _delta_row(event, view).encode()
        return f'{_envelope(event)},"data":{_encoded_data(event)}}}'.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEventError(event.type, _fault(event, error), seq=event.seq) from error


def event_lines(events: Sequence[SessionEvent]) -> list[bytes]:
    """The rows of a batch, each with its line break; for storages.

    What JSON cannot carry is replaced and its row marked lossy, so one bad value never keeps the
    other events of a batch from the disk. A part of a session's log is encoded as it is packed.
    """
    lines: list[bytes] = []
    for part in events.parts() if isinstance(events, EventsView) else events:
        if isinstance(part, SessionEvent):
            lines.append(event_row(part) + b"\n")
        else:
            lines += _run_lines(*part)
    return lines


def event_row(event: SessionEvent) -> bytes:
    """As `event_lines`, for a single event, and without a line break."""
    try:
        return event_to_json(event)
    except InvalidEventError:
        data = to_json(_carried(wire_data(event))).decode()
        return f'{_envelope(event)},"lossy":true,"data":{data}}}'.encode()


def _run_lines(run: ChunkRun, first: int, stop: int) -> list[bytes]:
    try:
        return run_lines(run, first, stop)
    except ValueError:
        return [event_row(run.event(seq)) + b"\n" for seq in range(first, stop)]


def _delta_row(event: SessionEvent, view: AssistantChunk) -> str:
    return (
        f'{{"type":"{CHUNK}","seq":{event.seq},"time":{event.time},"data":'
        f'{{"turn":{view.turn},"step":{view.step},"chunk":{chunk_json(view.chunk)}}}}}'
    )


def _envelope(event: SessionEvent) -> str:
    """All of a row but its data, still open."""
    row = f'{{"type":{encode_basestring(event.type)},"seq":{event.seq},"time":{event.time}'
    operation = event.surface_op
    if operation is not None:
        row += f',"surfaceOp":{_operation(operation)}'
    if event.sources is not None:
        row += f',"sourceEventSeqs":{to_json(event.sources.to_wire()).decode()}'
    return f'{row},"ignorable":true' if event.ignorable else row


def _operation(operation: object) -> str:
    if isinstance(operation, Replace):
        return f'{{"op":"replace","start":{operation.start},"end":{operation.end}}}'
    return '"append"'


def _encoded_data(event: SessionEvent) -> str:
    data = wire_data(event)
    if event.view.__class__ not in _TRUSTED:
        check_json(data)
    encoded = to_json(data)
    if b"NaN" in encoded or b"Infinity" in encoded or b"-0.0" in encoded:
        check_json(data)  # numbers or text: the walk knows
    return encoded.decode()


def _fault(event: SessionEvent, error: Exception) -> str:
    try:
        check_json(wire_data(event))
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
        case float():
            return value or 0.0  # -0.0 would lose its sign
        case None | bool():
            return value
        case int() if abs(value) <= MAX_INT:
            return value
        case _:
            return replace_surrogates(repr(value))


_DELTAS: Final = frozenset({TextDelta, ReasoningDelta, ToolCallDelta})
_TRUSTED: Final = frozenset(
    {
        dict,  # walked when it was appended
        AssistantMessage,
        EndSeed,
        InboxSpliced,
        Message,
        RequestContext,
        RequestHeader,
        StepEnd,
        StepStart,
        ToolCall,
        ToolResult,
        TurnEnd,
        TurnStart,
    }
)
