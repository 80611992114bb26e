"""What the session log costs in time, memory and disk, each row against a floor of the same run.

Floors are a bare loop of `pydantic_core.to_json` or `from_json` over the same events, and raw
writes of the same rows with the same fsync policy. Figures are the best of several alternating
rounds; processor time of this process, but time on the clock where a disk takes part.
"""

import argparse
import gc
import json
import os
import sqlite3
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from itertools import cycle, islice
from math import inf
from pathlib import Path
from typing import Any

import anyio
from figures import Row
from pydantic_core import from_json, to_json

from terret_context import Container
from terret_llm import Message, TextDelta, create_assistant_message, create_user_message
from terret_plugin_session_jsonl import JsonlStorage, session_jsonl
from terret_plugin_session_sqlite import SqliteStorage, session_sqlite
from terret_sessions import (
    AssistantChunk,
    AssistantMessage,
    Completed,
    EndSeed,
    Session,
    SessionEvent,
    Sessions,
    SessionStorage,
    StepEnd,
    StepStart,
    SurfaceOp,
    TurnEnd,
    TurnStart,
    event_to_json,
)

ROUNDS = 5
CHUNKS = 100
WORDS = [f"word{number} " for number in range(50)]


def per_event(name: str, figure: float, floor: float, count: int, *, target: float) -> Row:
    """A row of two times in seconds."""
    scale = 1e6 / count
    return Row(
        name=name, unit="µs/event", figure=figure * scale, floor=floor * scale, target=target
    )


Append = tuple[str, object, SurfaceOp | None]


def turn(number: int) -> Iterator[Append]:
    """The events of a turn whose answer comes in `CHUNKS` pieces."""
    pieces = list(islice(cycle(WORDS), CHUNKS))
    yield "turn/start", TurnStart(number), None
    prompt = create_user_message("Please tell me, in a few words, what this is about. " * 4)
    yield "user/message", prompt, "append"
    yield "step/start", StepStart(number, 1), None
    for piece in pieces:
        yield "assistant/chunk", AssistantChunk(number, 1, TextDelta(0, piece)), None
    answer = create_assistant_message("".join(pieces), "provider", "model")
    yield "assistant/message", AssistantMessage(number, 1, answer), "append"
    yield "step/end", StepEnd(number, 1), None
    yield "turn/end", TurnEnd(number, Completed()), None


def turns(count: int) -> list[Append]:
    return [event for number in range(1, count + 1) for event in turn(number)]


def session_of(events: Sequence[Append], id: str | None = None) -> Session:
    session = Session(id)
    append_all(session, events)
    return session


def append_all(session: Session, events: Sequence[Append]) -> None:
    append = session.append
    for type, data, operation in events:
        if operation is None:
            append(type, data)
        else:
            append(type, data, surface_op=operation)


def wire(event: SessionEvent) -> Any:
    return json.loads(event_to_json(event))


def best(*sides: Callable[[], float], rounds: int = ROUNDS) -> list[float]:
    """The best time of each, measured in turn so that all see the same machine."""
    found = [inf] * len(sides)
    for _ in range(rounds):
        for at, side in enumerate(sides):
            gc.collect()
            found[at] = min(found[at], side())
    return found


def processor(work: Callable[[], object]) -> Callable[[], float]:
    """Measure the processor time of some work."""

    def measure() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return measure


def append_rows() -> Iterator[Row]:
    """Appending the events of many turns, against encoding each of them once."""
    events = turns(300)
    dicts = [wire(event) for event in session_of(events).events]

    def encode() -> None:
        for each in dicts:
            to_json(each)

    with tempfile.TemporaryDirectory() as place:
        folders = (Path(place, str(number)) for number in range(1000))
        floor, *figures = best(
            processor(encode),
            processor(lambda: session_of(events)),
            lambda: anyio.run(append_kept, "jsonl", next(folders), events),
            lambda: anyio.run(append_kept, "sqlite", next(folders), events),
            rounds=9,
        )
    names = ("append, no listeners", "append and store, JSONL", "append and store, SQLite")
    for name, figure, target in zip(names, figures, (1.5, 4, 4), strict=True):
        yield per_event(name, figure, floor, len(events), target=target)


async def append_kept(backend: str, place: Path, events: Sequence[Append]) -> float:
    """Processor time of appending to a live session, of encoding and of writing behind."""
    async with kept(backend, place, fsync="never") as sessions:
        session = sessions.create()
        session.append("session/end-seed", EndSeed())
        await sessions.flush(session)  # makes the files
        gc.collect()
        start = time.process_time()
        for first in range(0, len(events), 1000):
            append_all(session, events[first : first + 1000])
            await anyio.lowlevel.checkpoint()
        await sessions.flush(session)
        return time.process_time() - start


@asynccontextmanager
async def kept(backend: str, place: Path, **config: object) -> AsyncIterator[Sessions]:
    """The sessions of a container, kept at a place."""
    async with Container() as root:
        root.plugin(Sessions)
        if backend == "jsonl":
            root.plugin(session_jsonl, {"root": place, **config})
        else:
            root.plugin(session_sqlite, {"path": place / "sessions.db", **config})
        await root.settle()
        yield root[Sessions]


def memory_row() -> Row:
    """What a finished message keeps of its 100 chunks, beyond the text of the message itself."""
    events = [event for event in turn(1) if event[0] != "turn/end"]
    session = session_of(events)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    stream(session, 2)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return Row(name="a message of 100 chunks", unit="bytes", figure=used, floor=12_000, target=1)


def stream(session: Session, step: int) -> None:
    session.append("step/start", StepStart(1, step))
    pieces = [f"{word}{number}" for number, word in enumerate(islice(cycle(WORDS), CHUNKS))]
    for piece in pieces:
        session.append("assistant/chunk", AssistantChunk(1, step, TextDelta(0, piece)))
    answer = create_assistant_message("".join(pieces), "provider", "model")
    session.append("assistant/message", AssistantMessage(1, step, answer), surface_op="append")
    session.append("step/end", StepEnd(1, step))


SESSIONS, BATCHES, TURNS = 8, 11, 2  # and one turn has CHUNKS + 6 events


def commit_rows() -> Iterator[Row]:
    """Storing the turns of several sessions at a time, against encoding and writing them raw."""
    for backend, raw in (("jsonl", raw_jsonl), ("sqlite", raw_sqlite)):
        with tempfile.TemporaryDirectory() as place:
            folders = (Path(place, str(number)) for number in range(1000))
            figure, floor = best(
                lambda: anyio.run(store_turns, backend, next(folders)),  # noqa: B023 - called here
                lambda: raw(next(folders)),  # noqa: B023
            )
        name = f"group commit of {SESSIONS} sessions, {backend}"
        count = SESSIONS * (BATCHES - 1) * TURNS * (CHUNKS + 6)
        yield per_event(name, figure, floor, count, target=1 / 0.6)


async def store_turns(backend: str, place: Path) -> float:
    """Time on the clock from events in the log to the acknowledgement of their flush."""
    seconds = 0.0
    async with kept(backend, place, windowMs=3_600_000) as sessions:
        made = [sessions.create(str(number)) for number in range(SESSIONS)]
        for number in range(BATCHES):
            for session in made:
                for following in range(TURNS):
                    append_all(session, list(turn(number * TURNS + following + 1)))
            start = time.perf_counter()
            async with anyio.create_task_group() as group:
                for session in made:
                    group.start_soon(sessions.flush, session)
            if number:  # the first round made the files
                seconds += time.perf_counter() - start
    return seconds


def dicts_of(number: int) -> list[Any]:
    """The events of a batch, for who encodes and writes them without a session."""
    session = session_of(turns((number + 1) * TURNS))
    return [wire(event) for event in session.events[number * TURNS * (CHUNKS + 6) :]]


def raw_jsonl(place: Path) -> float:
    """The same rows appended to as many files, each with an fsync."""
    place.mkdir()
    files = [(place / str(number)).open("ab", buffering=0) for number in range(SESSIONS)]
    seconds = 0.0
    for number in range(BATCHES):
        events = dicts_of(number)
        start = time.perf_counter()
        for file in files:
            file.write(b"".join(to_json(event) + b"\n" for event in events))
            os.fsync(file.fileno())
        if number:
            seconds += time.perf_counter() - start
    for file in files:
        file.close()
    return seconds


def raw_sqlite(place: Path) -> float:
    """The same bytes inserted in one transaction a round, with one row for each session."""
    place.mkdir()
    seconds = 0.0
    with closing(sqlite3.connect(place / "raw.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(
            "CREATE TABLE blocks (session INTEGER, first INTEGER, lines BLOB,"
            " PRIMARY KEY (session, first))"
        )
        for number in range(BATCHES):
            events = dicts_of(number)
            first = number * TURNS * (CHUNKS + 6)
            start = time.perf_counter()
            db.execute("BEGIN IMMEDIATE")
            for session in range(SESSIONS):
                lines = b"".join(to_json(event) + b"\n" for event in events)
                db.execute("INSERT INTO blocks VALUES (?, ?, ?)", (session, first, lines))
            db.execute("COMMIT")
            if number:
                seconds += time.perf_counter() - start
    return seconds


def derive_row() -> Row:
    """Deriving after one more event, on a long log against a short one."""
    sides = []
    for length in (100, 100_000):
        session = Session()
        message = create_user_message("hi")
        for _ in range(length):
            session.append("user/message", message, surface_op="append")
        session.derive_messages()

        def derive(session: Session = session, message: Message = message) -> float:
            start = time.perf_counter()
            for _ in range(1000):
                session.append("user/message", message, surface_op="append")
                session.derive_messages()
            return time.perf_counter() - start

        sides.append(derive)
    short, long = best(*sides)
    return Row(
        name="derive after one append, 100,000 events",
        unit="µs",
        figure=long * 1e3,
        floor=short * 1e3,
        target=2,
    )


def restore_rows(count: int) -> Iterator[Row]:
    """Reading a session of `count` events and making it a live one."""
    events = turns(1 + count // (CHUNKS + 6))[:count]
    session = session_of(events, "long")
    rows = [event_to_json(event) for event in session.events]
    payload = sum(map(payload_bytes, (data for _, data, _ in events)))

    def parse() -> None:
        for row in rows:
            from_json(row)

    with tempfile.TemporaryDirectory() as place:
        path = Path(place)
        storages = {"jsonl": JsonlStorage(path), "sqlite": SqliteStorage(path / "db")}
        for storage in storages.values():
            anyio.run(store, storage, session)
        del events, session  # else they are searched for cycles again and again
        restores = [
            processor(partial(anyio.run, restore, storage)) for storage in storages.values()
        ]
        floor, *figures = best(processor(parse), *restores, rounds=3)
        for (backend, storage), figure in zip(storages.items(), figures, strict=True):
            name = f"restore {count:,} events, {backend}"
            yield per_event(name, figure, floor, count, target=3)
            used = restored_bytes(storage)
            yield Row(
                name=f"{name}, memory",
                unit="bytes",
                figure=(used - payload) / count,
                floor=400,
                target=1,
            )


def payload_bytes(data: object) -> int:
    """The text of an event."""
    match data:
        case AssistantChunk(chunk=TextDelta(text=text)):
            return len(text)
        case AssistantMessage(message=message) | (Message() as message):
            return len(message.text)
    return 0


async def store(storage: SessionStorage, session: Session) -> None:
    await storage.acquire(session.id)
    await storage.append_batch(session.header, session.events, materialized=False)
    await storage.close()


async def restore(storage: SessionStorage) -> Session:
    stored = await storage.load_stored("long")
    assert stored is not None
    return Session(header=stored.header, seed=stored.events)


def restored_bytes(storage: SessionStorage) -> int:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    session = anyio.run(restore, storage)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert session.live is False
    return used


def list_rows(count: int) -> Iterator[Row]:
    """Listing many sessions, against reading as many small files."""
    events = turns(3)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place)
        headers = path / "headers"
        headers.mkdir()
        storages = [JsonlStorage(path / "jsonl"), SqliteStorage(path / "sessions.db")]
        anyio.run(store_many, storages, headers, events, count)

        def read_all() -> None:
            for file in headers.iterdir():
                from_json(file.read_bytes())

        sides = [processor(partial(anyio.run, storage.list)) for storage in storages]
        *figures, floor = best(*sides, processor(read_all), rounds=3)
    for backend, figure in zip(("jsonl", "sqlite"), figures, strict=True):
        yield Row(
            name=f"list {count:,} sessions, {backend}",
            unit="µs/session",
            figure=figure / count * 1e6,
            floor=floor / count * 1e6,
        )


async def store_many(
    storages: list[SessionStorage], headers: Path, events: list[Append], count: int
) -> None:
    for number in range(count):
        session = session_of(events, f"s{number}")
        (headers / str(number)).write_bytes(to_json(session.header.to_wire()))
        for storage in storages:
            await storage.acquire(session.id)
            await storage.append_batch(session.header, session.events, materialized=False)
            await storage.release(session.id)
    for storage in storages:
        await storage.close()


def all_rows(*, quick: bool) -> Iterator[Row]:
    yield from append_rows()
    yield memory_row()
    yield from commit_rows()
    yield derive_row()
    yield from restore_rows(50_000 if quick else 1_000_000)
    yield from list_rows(500 if quick else 10_000)


def main() -> int:
    """Measure everything and print a table, or with --json one object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]}')
    parser.add_argument("--quick", action="store_true", help="shorter logs, fewer sessions")
    options = parser.parse_args()
    rows = []
    for row in all_rows(quick=options.quick):
        rows.append(row)
        if not options.json:
            print(row, flush=True)
    if options.json:
        print(json.dumps({"rows": [row.as_json() for row in rows]}))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
