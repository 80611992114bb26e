"""What a scripted model answers: parts of a reply, and replies."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from terret_llm import Finish, GenerateOptions, LlmFailure, Usage


@dataclass(frozen=True, slots=True)
class Say:
    """Text of the answer."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning in front of the answer."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool; without an id it gets `call-1`, `call-2`, ... in order."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The end of the stream with a failure."""

    finish: Finish


@dataclass(frozen=True, slots=True)
class Pause:
    """A point at which the stream waits until the test releases it."""

    name: str


Part: TypeAlias = Say | Think | Call | Fail | Pause


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request; see `reply`."""

    parts: tuple[Part, ...]
    finish: Finish | None = None
    usage: Usage | None = None


Answer: TypeAlias = Part | Reply | Callable[[GenerateOptions], Part | Reply]

_USAGE = Usage(input_tokens=10, output_tokens=5)


def say(*pieces: str) -> Say:
    """Answers with text; each piece is a chunk of its own."""
    return Say(pieces)


def think(*pieces: str) -> Think:
    """Thinks aloud; each piece is a chunk of its own."""
    return Think(pieces)


def call(name: str, /, **arguments: object) -> Call:
    """Calls a tool."""
    return Call(name, json.dumps(arguments, separators=(",", ":"), ensure_ascii=False))


def raw_call(name: str, text: str, *, id: str | None = None) -> Call:
    """Calls a tool with exactly this text as arguments, which may be invalid JSON."""
    return Call(name, text, id)


def fail(code: str, message: str = "the scripted model fails", *, aborted: bool = False) -> Fail:
    """Ends the stream with a failure."""
    failure = LlmFailure(message, code)
    return Fail(Finish.aborted(failure) if aborted else Finish.error(failure))


def pause(name: str) -> Pause:
    """Waits here, inside a `reply`, until the test calls `model.release(name)`."""
    return Pause(name)


def reply(*parts: Part, finish: Finish | None = None, usage: Usage | None = _USAGE) -> Reply:
    """Puts several parts into the answer to one request.

    The finish is `tool-calls` if there is a call and else `stop`, unless a part or the caller
    says something else.
    """
    return Reply(parts, finish, usage)


def as_reply(answer: Part | Reply) -> Reply:
    """Returns the reply that a single part stands for."""
    return answer if isinstance(answer, Reply) else reply(answer)


def finish_of(parts: Iterable[Part]) -> Finish:
    """Returns how a model ends a message of these parts."""
    called = any(isinstance(part, Call) for part in parts)
    return Finish.tool_calls() if called else Finish.stop()
