"""`terret sessions`: what is stored."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import typer

from terret_context import Container, TerretError
from terret_llm import Message, ToolResultBlock
from terret_sessions import (
    SESSION_PERSISTENCE,
    AssistantMessage,
    SessionEvent,
    SessionHeader,
    SessionLog,
    SessionNotFoundError,
    SessionPersistence,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    event_to_json,
)

from ._boot import Boot
from ._errors import DONE, CommandError
from ._printing import say, shorten
from ._screen import describe_end


async def list_sessions(boot: Boot) -> int:
    """Prints the stored sessions, newest first; one that cannot be read does not hide others."""
    async with boot.open(start_agents=False) as root:
        storage = _storage(root)
        headers = sorted(await storage.list(), key=lambda header: -header.created_at)
        if not headers:
            say("no sessions are stored")
        for header in headers:
            try:
                log = await storage.inspect(header.id)
            except TerretError as error:
                typer.echo(f"{header.id}  cannot be read: {error}")
            else:
                typer.echo(f"{header.id}  {_summary(log)}")
    return DONE


async def show_session(boot: Boot, session_id: str, *, events: bool) -> int:
    """Prints one stored session: its turns, or with `events` its log as it is."""
    async with boot.open(start_agents=False) as root:
        try:
            log = await _storage(root).inspect(session_id)
        except SessionNotFoundError:
            raise CommandError(
                f'there is no session "{session_id}"; see: terret sessions list'
            ) from None
        except TerretError as error:
            raise CommandError(str(error)) from error
        if events:
            for event in log.events:
                typer.echo(event_to_json(event).decode())
            return DONE
        typer.echo(f"session {log.header.id}  {_summary(log)}")
        for line in _transcript(log.events):
            typer.echo(line)
    return DONE


def _storage(root: Container) -> SessionPersistence:
    storage = root.get(SESSION_PERSISTENCE)
    if storage is None:
        raise CommandError("nothing stores sessions; add `session-jsonl: {}` to harness.yml")
    return storage


def _summary(log: SessionLog) -> str:
    turns = [event for event in log.events if isinstance(event.view, TurnEnd)]
    last = log.events[-1].time if log.events else log.header.created_at
    counted = f"{len(turns)} turn" + ("" if len(turns) == 1 else "s")
    return f"{_when(log.header)}  last {_clock(last)}  {counted}"


def _when(header: SessionHeader) -> str:
    return _clock(header.created_at)


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
