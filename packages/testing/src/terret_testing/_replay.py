"""A model that says again what a log recorded."""

from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import anyio

from terret_llm import Chunk, GenerateOptions

from ._model import ScriptedModel, ScriptExhaustedError
from ._placeholders import filled
from ._recording import Log, RecordedCall, ReplayError, places_by_name, recorded_calls
from ._script import Answer, Call, Part, Reply, Say, as_reply


class ReplayExhaustedError(ScriptExhaustedError):
    """More was asked than was recorded."""

    def __init__(self, reason: str) -> None:
        AssertionError.__init__(self, f"nothing is left to replay: {reason}")


@dataclass(frozen=True, slots=True)
class Broken:
    """Raises an error after the first chunks of the recorded answer."""

    error: Exception
    after: int = 0


@dataclass(frozen=True, slots=True)
class Hanging:
    """Waits for ever after the first chunks of the recorded answer.

    `signal` is a file that is created then, for a test in another process.
    """

    after: int = 0
    signal: Path | None = None


Override: TypeAlias = Answer | Broken | Hanging
Key: TypeAlias = tuple[int, ...] | tuple[str, tuple[int, ...]]
"""Turn and step, or turn, step and attempt; of another session than the first: its id and that."""


class ReplayModel(ScriptedModel):
    """Answers each request with what was recorded at its position in the session.

    The first conversation that asks replays the first log, each further one the next: children
    in the order of their creation. A model keeps its place when its plugin is loaded again.

    `overrides` says what else happens at a call, by its turn and step (and attempt, where there
    are several); `more` are answers to requests behind the last one of the first log. In their
    texts `{{last:REGEX}}` is the last match in the messages of the request. `pace` is a pause in
    front of each chunk, in seconds. Raises `ReplayError` for a log that cannot be replayed and for
    overrides of calls that it does not have.
    """

    def __init__(
        self,
        *logs: Log,
        overrides: Mapping[Key, Override] | None = None,
        more: Sequence[Answer] = (),
        pace: float = 0.0,
    ) -> None:
        super().__init__()
        first, *children = logs
        ordered = [first, *sorted(children, key=lambda log: log.header.created_at)]
        self._pace = pace
        self._unbound = deque(_plans(ordered, overrides or {}, more))
        self._sessions = len(ordered)
        self._bound: dict[str | None, _Plan] = {}

    @property
    def remaining(self) -> int:
        """How many recorded calls were not asked for."""
        return sum(len(plan.calls) for plan in (*self._bound.values(), *self._unbound))

    def assert_consumed(self) -> None:
        """Fails unless every call of every log was asked for; names those that were not."""
        left = [
            f'session "{plan.session}", {call}'
            for plan in (*self._bound.values(), *self._unbound)
            for call, _ in plan.calls
        ]
        if left:
            raise AssertionError("these calls were recorded and not replayed:\n" + "\n".join(left))

    async def stream(self, request: GenerateOptions) -> AsyncGenerator[Chunk, None]:
        """Answers one request; raises `ScriptExhaustedError` when the recording ends before."""
        self.requests.append(request)
        call, override = self._take(request)
        if override is None or isinstance(override, Broken | Hanging):
            last = len(call.chunks) if override is None else override.after
            for chunk in call.chunks[:last]:
                await anyio.sleep(self._pace)
                yield chunk
            if isinstance(override, Broken):
                raise override.error
            if isinstance(override, Hanging):
                if override.signal is not None:
                    await anyio.Path(override.signal).touch()
                await anyio.sleep_forever()
        else:
            answer = override(request) if callable(override) else override
            async with aclosing(self._play(_filled(as_reply(answer), request))) as chunks:
                async for chunk in chunks:
                    await anyio.sleep(self._pace)
                    yield chunk

    def _take(self, request: GenerateOptions) -> "_Entry":
        session = request.session_id
        if session not in self._bound:
            if not self._unbound:
                raise self._exhausted_by(
                    f'"{session}" is one conversation more than the {self._sessions} recorded'
                )
            self._bound[session] = self._unbound.popleft()
        plan = self._bound[session]
        if not plan.calls:
            raise self._exhausted_by(f'the recording of session "{plan.session}" has ended')
        return plan.calls.popleft()

    def _exhausted_by(self, reason: str) -> ScriptExhaustedError:
        error = ReplayExhaustedError(reason)
        self.exhausted = self.exhausted or error
        return error


_Entry: TypeAlias = tuple[RecordedCall, Override | None]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is left to replay of one session."""

    session: str
    calls: deque[_Entry]


def _plans(
    logs: Sequence[Log], overrides: Mapping[Key, Override], more: Sequence[Answer]
) -> Iterator[_Plan]:
    pending = dict(overrides)
    for log in logs:
        first = log is logs[0]
        own: dict[tuple[int, ...], Override] = {}
        for key in list(pending):
            match key:
                case (str() as session, tuple() as place) if session == log.header.id:
                    own[place] = pending.pop(key)
                case tuple() if first and not isinstance(key[0], str):
                    own[key] = pending.pop(key)
        yield _plan(log, own, more if first else ())
    if pending:
        raise ReplayError(f"no recorded session has these overridden calls: {sorted(pending)}")


def _plan(log: Log, own: Mapping[tuple[int, ...], Override], more: Sequence[Answer]) -> _Plan:
    incomplete = [(*key, 1)[:3] for key in own]
    calls = recorded_calls(log, incomplete=incomplete)  # type: ignore[arg-type]
    names = places_by_name(calls)
    chosen: dict[tuple[int, ...], Override] = {}
    for name, override in own.items():
        place = names.get(name)
        if place is None:
            known = ", ".join(str(list(each)) for each in names)
            raise ReplayError(f"there is no call {list(name)} to override; calls: {known}")
        if place in chosen:
            raise ReplayError(f"the call {list(place)} is overridden twice")
        chosen[place] = override
    entries: list[_Entry] = [(call, chosen.get(call.place)) for call in calls]
    entries += [(RecordedCall((0, 0, n), ()), answer) for n, answer in enumerate(more, 1)]
    return _Plan(log.header.id, deque(entries))


def _filled(reply: Reply, request: GenerateOptions) -> Reply:
    return replace(reply, parts=tuple(_filled_part(part, request) for part in reply.parts))


def _filled_part(part: Part, request: GenerateOptions) -> Part:
    match part:
        case Say(pieces=pieces):
            return Say(tuple(filled(piece, request.messages) for piece in pieces))
        case Call():
            return replace(part, arguments=filled(part.arguments, request.messages))
    return part
