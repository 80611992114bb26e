"""`terret sessions`: what is stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

import typer

from terret_agents import Agents
from terret_context import Container, TerretError
from terret_sessions import (
    SESSION_PERSISTENCE,
    SessionHeader,
    SessionKey,
    SessionLog,
    SessionNotFoundError,
    SessionPersistence,
    Sessions,
    SessionSnapshot,
    event_to_json,
    last_turn,
)

from ._agents import DEFAULT_TENANT
from ._boot import Boot
from ._errors import DONE, CommandError
from ._options import Address
from ._printing import columns, counted, say
from ._services import AGENT_FOLDERS, LOOP_EVENTS
from ._transcript import open_items, transcript


async def list_sessions(boot: Boot, agent: str | None = None, tenant: str | None = None) -> int:
    """Prints the stored sessions of a tenant, those used last first."""
    async with boot.open(start_agents=False) as root:
        storage = _storage(root)
        with _refusals(root, Address(agent=agent)):
            snapshots = await storage.list_snapshots()
        found = [each for each in snapshots if agent in (None, _agent(each.header))]
        shown = [each for each in found if _is_of(each.header, tenant)]
        if not shown:
            say("no sessions are stored" + ("" if agent is None else f" of agent {agent}"))
        shown.sort(key=lambda each: -each.updated_at)
        for line in columns([await _row(root, storage, each) for each in shown]):
            typer.echo(line)
        if others := {key.tenant for each in found if (key := _key(each.header))} - {
            tenant or DEFAULT_TENANT
        }:
            say(f"there are sessions of other tenants (--tenant): {', '.join(sorted(others))}")
    return DONE


async def show_session(boot: Boot, address: Address, *, events: bool) -> int:
    """Prints one stored session: its turns, or with `events` its log as it is."""
    async with boot.open(start_agents=False) as root:
        log = await _log(root, address)
        if events:
            for event in log.events:
                typer.echo(event_to_json(event).decode())
            return DONE
        typer.echo(f"session {_shown(root, log.header)}  {_summary(log)}")
        for item in open_items(log.events):
            typer.echo(f"open item  {item}")
        for line in transcript(log.events):
            typer.echo(line)
    return DONE


async def export_session(boot: Boot, address: Address, protocol: str) -> int:
    """Prints a stored session as JSON lines: its events, or their projection."""
    async with boot.open(start_agents=False) as root:
        log = await _log(root, address)
        for row in _exported(root, log, protocol):
            typer.echo(row)
    return DONE


async def delete_session(boot: Boot, address: Address) -> int:
    """Removes a stored session; one that is in use is refused."""
    async with boot.open(start_agents=False) as root:
        with _refusals(root, address):
            await _storage(root).delete(_id(root, address))
        say(f"deleted {address.session}")
    return DONE


async def fork_session(boot: Boot, address: Address, at: int | None, new: str | None) -> int:
    """Stores a session that begins like another one, up to the event `at`, and prints its id."""
    async with boot.open(start_agents=False) as root:
        storage, sessions = _storage(root), root[Sessions]
        log = await _log(root, address)
        with _refusals(root, address):
            key = _key(log.header)
            id = new if key is None else str(replace(key, raw_id=new or str(uuid4())))
            if any(header.id == id for header in await storage.list()):
                raise CommandError(f'there is a session "{new}" already')
            seed, meta = sessions.fork_seed(log, at)
            child = sessions.create(id, seed=seed, meta=meta)
            await sessions.flush(child)
        typer.echo(_shown(root, child.header))
    return DONE


def _id(root: Container, address: Address) -> str:
    """Returns the id under which a session is stored. Raises `CommandError`."""
    id = str(address.session)
    folders, agents = root.get(AGENT_FOLDERS), root.get(Agents)
    if address.agent is None:
        if address.tenant is not None:
            raise CommandError("--tenant needs --agent; without both, ID is that of the store")
        return id
    listed = [] if agents is None else [entry.id for entry in agents.entries()]
    if folders is None or address.agent in listed:
        if address.tenant is not None:
            raise CommandError(f'the agent "{address.agent}" has no tenants')
        return id
    tenant = address.tenant or DEFAULT_TENANT
    return str(SessionKey(tenant, folders.environment, address.agent, id))


async def _log(root: Container, address: Address) -> SessionLog:
    with _refusals(root, address):
        return await _storage(root).inspect(_id(root, address))


@contextmanager
def _refusals(root: Container, address: Address) -> Iterator[None]:
    """Turns what is wrong with a session into the refusal of the command."""
    try:
        yield
    except CommandError:
        raise
    except SessionNotFoundError:
        text = f'there is no session "{address.session}"'
        if address.agent is not None:
            text += f' of agent "{address.agent}"'
        elif root.get(AGENT_FOLDERS) is not None:
            text += " (agents in folders: --agent NAME with the id)"
        raise CommandError(f"{text}; see: terret sessions list") from None
    except (TerretError, ValueError, OSError) as error:
        raise CommandError(str(error)) from error


def _exported(root: Container, log: SessionLog, protocol: str) -> Iterator[str]:
    if protocol == "log":
        yield from (event_to_json(event).decode() for event in log.events)
        return
    events = root.get(LOOP_EVENTS)
    if events is None:
        raise CommandError(f"--protocol {protocol} needs the plugin loop-events in harness.yml")
    key, header = _key(log.header), log.header
    try:
        outputs = events.project(
            log.events,
            session_id=header.id if key is None else key.raw_id,
            agent=_agent(header) or header.id,
            protocol=protocol,
            copied=header.seed_length or 0,
        )
    except LookupError as error:
        raise CommandError(str(error)) from None
    yield from (output.json.decode() for output in outputs)


def _storage(root: Container) -> SessionPersistence:
    storage = root.get(SESSION_PERSISTENCE)
    if storage is None:
        raise CommandError("nothing stores sessions; add `session-jsonl: {}` to harness.yml")
    return storage


def _key(header: SessionHeader) -> SessionKey | None:
    """Returns whose session it is, if it is one of an agent in a folder."""
    try:
        return SessionKey.parse(header.id)
    except ValueError:
        return None


def _agent(header: SessionHeader) -> str | None:
    """Which agent a session belongs to, as far as it says."""
    key = _key(header)
    return header.agent_preset if key is None else key.agent


def _is_of(header: SessionHeader, tenant: str | None) -> bool:
    key = _key(header)
    return tenant is None if key is None else key.tenant == (tenant or DEFAULT_TENANT)


def _shown(root: Container, header: SessionHeader) -> str:
    """Returns what people call a session: the id they gave, if that is enough with its agent."""
    key, folders = _key(header), root.get(AGENT_FOLDERS)
    is_here = key is not None and folders is not None and key.environment == folders.environment
    return key.raw_id if key is not None and is_here else header.id


async def _row(
    root: Container, storage: SessionPersistence, snapshot: SessionSnapshot
) -> tuple[str, ...]:
    header, turn = snapshot.header, snapshot.last_turn
    status, turns, items = "-", "-", "-"
    if turn is not None:
        status, turns = "open" if turn.end is None else turn.end.kind, counted(turn.number, "turn")
    if status == "open":  # the only turn that can have some
        try:
            number = len(open_items((await storage.inspect(header.id)).events))
        except (TerretError, OSError):
            status = "damaged"
        else:
            if number:
                status, items = "waiting", counted(number, "open item")
    moment = _clock(snapshot.updated_at)
    return _shown(root, header), _agent(header) or "-", status, turns, items, moment


def _summary(log: SessionLog) -> str:
    last = log.events[-1].time if log.events else log.header.created_at
    turn = last_turn(reversed(log.events))
    turns = counted(0 if turn is None else turn.number, "turn")
    return f"{_clock(log.header.created_at)}  last {_clock(last)}  {turns}"


def _clock(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return moment.isoformat(sep=" ", timespec="seconds")
