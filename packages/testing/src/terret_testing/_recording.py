"""What a model said, read from the log of a session."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeAlias

from terret_llm import Chunk, Finish, FinishChunk, Message, TextDelta
from terret_sessions import (
    AssistantChunk,
    LogReader,
    Session,
    SessionEvent,
    SessionLog,
    StepEnd,
    StepStart,
    TurnStart,
    is_replacement,
    session_header_from_wire,
)

Log: TypeAlias = SessionLog | Session
Place: TypeAlias = tuple[int, int, int]
"""Turn, step and attempt of a call, each counted from 1; attempts that follow are retries."""


class ReplayError(ValueError):
    """A log, or what was said about it, cannot be replayed."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a model with the chunks of its answer, up to the finish."""

    place: Place
    chunks: tuple[Chunk, ...]

    def __str__(self) -> str:
        return "turn {}, step {}, attempt {}".format(*self.place)


def read_session(path: Path) -> SessionLog:
    """Reads the file in which `session-jsonl` keeps a session."""
    with path.open("rb") as file:
        header = session_header_from_wire(json.loads(next(file)))
        reader = LogReader()
        reader.extend(file.readlines())
    return SessionLog(header, tuple(reader.events))


def recorded_calls(log: Log, *, incomplete: Sequence[Place] = ()) -> tuple[RecordedCall, ...]:
    """Returns the calls of a session in their order, retries as calls of their own.

    What a fork took over from its parent is not its own and is left out. Where the log was
    compacted, the call that made the summary comes in between, as attempt 0. Raises `ReplayError`
    for a call without a finish, unless its place is among `incomplete`.
    """
    own = log.header.seed_length or 0
    calls = tuple(_calls(log.events[own:]))
    for call in calls:
        finished = call.chunks and isinstance(call.chunks[-1], FinishChunk)
        if not finished and call.place not in incomplete:
            raise ReplayError(
                f'session "{log.header.id}", {call}: the answer has no finish. Say what is to '
                "happen there with an override, or replay a log without it"
            )
    return calls


def places_by_name(calls: Sequence[RecordedCall]) -> Mapping[tuple[int, ...], Place]:
    """Returns the places of calls by the forms in which an override may name them.

    A call is named by turn, step and attempt, and by turn and step if it is the only one there.
    """
    names: dict[tuple[int, ...], Place] = {call.place: call.place for call in calls}
    steps = [call.place[:2] for call in calls if call.place[2] > 0]
    names.update({call.place[:2]: call.place for call in calls if steps.count(call.place[:2]) == 1})
    return names


def _calls(events: Sequence[SessionEvent]) -> Iterator[RecordedCall]:
    turn = step = 0
    attempts = count(1)
    chunks: list[Chunk] = []
    summarizing = False
    for event in events:
        match event.view:
            case TurnStart(turn=turn):
                step = 0
            case StepStart(step=step):
                attempts = count(1)
            case AssistantChunk(chunk=chunk):
                chunks.append(chunk)
            case Message() as message if summarizing and is_replacement(event):
                yield RecordedCall((turn, step, 0), _spoken(message.text))
        summarizing = event.type == "compaction/summary"
        ended = chunks and (isinstance(chunks[-1], FinishChunk) or isinstance(event.view, StepEnd))
        if ended:
            yield RecordedCall((turn, step, next(attempts)), tuple(chunks))
            chunks = []
    if chunks:
        yield RecordedCall((turn, step, next(attempts)), tuple(chunks))


def _spoken(text: str) -> tuple[Chunk, ...]:
    return (TextDelta(0, text), FinishChunk(Finish.stop()))
