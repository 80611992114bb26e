"""`terret sessions`: what is stored."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import typer
from pydantic_core import to_json

from terret_context import Container, ServiceKey, TerretError
from terret_llm import Message, ToolResultBlock
from terret_sessions import (
    SESSION_PERSISTENCE,
    AssistantMessage,
    SessionEvent,
    SessionHeader,
    SessionKey,
    SessionLog,
    SessionNotFoundError,
    SessionPersistence,
    Sessions,
    SessionSnapshot,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    event_to_json,
    last_turn,
)

from ._boot import Boot
from ._errors import DONE, CommandError
from ._printing import columns, say, shorten
from ._screen import describe_end


async def list_sessions(boot: Boot, agent: str | None = None) -> int:
    """Prints the stored sessions, those used last first, without reading their logs."""
    async with boot.open(start_agents=False) as root:
        snapshots = await _storage(root).list_snapshots()
        rows = [
            (each.header.id, _agent(each.header) or "-", *_state(each), _clock(each.updated_at))
            for each in sorted(snapshots, key=lambda each: -each.updated_at)
            if agent is None or _agent(each.header) == agent
        ]
        if not rows:
            say("no sessions are stored" + ("" if agent is None else f" of agent {agent}"))
        for line in columns(rows):
            typer.echo(line)
    return DONE


async def show_session(boot: Boot, session_id: str, *, events: bool) -> int:
    """Prints one stored session: its turns, or with `events` its log as it is."""
    async with boot.open(start_agents=False) as root:
        log = await _log(root, session_id)
        if events:
            for event in log.events:
                typer.echo(event_to_json(event).decode())
            return DONE
        typer.echo(f"session {log.header.id}  {_summary(log)}")
        for line in _transcript(log.events):
            typer.echo(line)
    return DONE


async def export_session(boot: Boot, session_id: str, protocol: str) -> int:
    """Prints a stored session as JSON lines: its events, or their projection."""
    async with boot.open(start_agents=False) as root:
        log = await _log(root, session_id)
        for row in _exported(root, log, protocol):
            typer.echo(row)
    return DONE


async def delete_session(boot: Boot, session_id: str) -> int:
    """Removes a stored session; one that is in use is refused."""
    async with boot.open(start_agents=False) as root:
        with _refusals(session_id):
            await _storage(root).delete(session_id)
        say(f"deleted {session_id}")
    return DONE


async def fork_session(boot: Boot, session_id: str, at: int | None, new: str | None) -> int:
    """Stores a session that begins like another one, up to the event `at`, and prints its id."""
    async with boot.open(start_agents=False) as root:
        storage, sessions = _storage(root), root[Sessions]
        log = await _log(root, session_id)
        if new is not None and await _is_stored(storage, new):
            raise CommandError(f'there is a session "{new}" already')
        with _refusals(session_id):
            seed, meta = sessions.fork_seed(log, at)
            child = sessions.create(new, seed=seed, meta=meta)
            await sessions.flush(child)
        typer.echo(child.id)
    return DONE


async def _log(root: Container, session_id: str) -> SessionLog:
    with _refusals(session_id):
        return await _storage(root).inspect(session_id)


async def _is_stored(storage: SessionPersistence, session_id: str) -> bool:
    return any(header.id == session_id for header in await storage.list())


@contextmanager
def _refusals(session_id: str) -> Iterator[None]:
    """Turns what is wrong with a session into the refusal of the command."""
    try:
        yield
    except SessionNotFoundError:
        text = f'there is no session "{session_id}"; see: terret sessions list'
        raise CommandError(text) from None
    except (TerretError, OSError) as error:
        raise CommandError(str(error)) from error


def _exported(root: Container, log: SessionLog, protocol: str) -> Iterator[str]:
    if protocol == "log":
        yield from (event_to_json(event).decode() for event in log.events)
        return
    projections = root.get(_LOOP_EVENTS)
    if projections is None:
        raise CommandError(f"--protocol {protocol} needs the plugin loop-events in harness.yml")
    named = {"session_id": log.header.id, "agent": _agent(log.header) or "main"}
    with _refusals(log.header.id):
        outputs = projections.project(log.events, protocol=protocol, **named)
        yield from (to_json(output.event).decode() for output in outputs)


def _storage(root: Container) -> SessionPersistence:
    storage = root.get(SESSION_PERSISTENCE)
    if storage is None:
        raise CommandError("nothing stores sessions; add `session-jsonl: {}` to harness.yml")
    return storage


def _agent(header: SessionHeader) -> str | None:
    """Which agent a session belongs to, as far as it says."""
    try:
        return SessionKey.parse(header.id).agent
    except ValueError:
        return header.agent_preset


def _state(snapshot: SessionSnapshot) -> tuple[str, str]:
    """How the last turn of a session ended, and how many there were."""
    turn = snapshot.last_turn
    if turn is None:
        return "-", "-"
    return "open" if turn.end is None else turn.end.kind, _counted(turn.number)


def _summary(log: SessionLog) -> str:
    last = log.events[-1].time if log.events else log.header.created_at
    turn = last_turn(reversed(log.events))
    counted = _counted(0 if turn is None else turn.number)
    return f"{_clock(log.header.created_at)}  last {_clock(last)}  {counted}"


def _counted(turns: int) -> str:
    return f"{turns} turn" + ("" if turns == 1 else "s")


def _clock(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return moment.isoformat(sep=" ", timespec="seconds")


def _transcript(events: Iterable[SessionEvent]) -> Iterator[str]:
    for event in events:
        match event.view:
            case TurnStart(turn=turn):
                yield f"turn {turn}"
            case Message() as message:
                yield f"  {message.source.kind:<9} {shorten(message.text)}"
            case AssistantMessage(message=message) if message.text:
                yield f"  assistant {shorten(message.text)}"
            case ToolCall(name=name, arguments=arguments):
                yield f"  call      {name} {shorten(arguments)}"
            case ToolResult(message=message):
                yield f"  result    {shorten(_result(message))}"
            case TurnEnd(reason=reason) if describe_end(reason):
                yield f"  {describe_end(reason)}"


def _result(message: Message) -> str:
    blocks = [block for block in message.content if isinstance(block, ToolResultBlock)]
    return " ".join(getattr(part, "text", "") for block in blocks for part in block.content)


_LOOP_EVENTS: Final = ServiceKey[Any]("loopEvents")  # of a plugin, which is not imported here
