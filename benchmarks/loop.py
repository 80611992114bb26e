"""What Terret adds to the bare cost of talking to a model.

Each row is measured against a floor in the same run: a bare httpx2 loop that holds the same
conversation with the same server, which runs in a process of its own. A conversation is 200 turns
of three tool steps and a text of 100 chunks. Figures are the best of several alternating rounds:
processor time of this process, time on the clock for the start. Memory is that of a process of its
own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from math import inf
from pathlib import Path

import anyio
import httpx2
from conversations import TURNS, harness_file, model_server, terret, turn_times
from figures import Row, report
from pydantic_core import from_json

ROUNDS = 3
STEPS = 4  # of a turn
LAST = 6  # turns at whose end there are 775 steps
CHUNKS = 500
STARTS = 7
HERE = Path(__file__).parent

SQLITE = """\
  session-sqlite: {path: sessions.db}
"""

BARE_START = """\
import asyncio, httpx2
async def main():
    async with httpx2.AsyncClient() as client:
        await client.post("URL/chat/completions", json={"model": "MODEL", "messages": []})
asyncio.run(main())
"""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
    }
]

Side = Callable[[str, str], Coroutine[object, object, list[float]]]


def rows() -> Iterator[Row]:
    """Yield the measured rows."""
    with model_server() as url:
        yield from conversation_rows(url)
        yield chunk_row(url)
        yield start_row(url)
        yield from process_rows(url)


def conversation_rows(url: str) -> Iterator[Row]:
    """Yield the processor time of a turn and of a late step, in memory and with a database."""
    best: dict[Side, tuple[float, float]] = dict.fromkeys((bare, terret, stored), (inf, inf))
    for _ in range(ROUNDS):
        for side, (turn, step) in best.items():
            times = anyio.run(side, url, "tools-3-100")
            late = sum(times[-LAST:]) / LAST / STEPS
            best[side] = (min(turn, sum(times) / TURNS), min(step, late))
    floor = best[bare]
    yield Row(name="CPU per turn", unit="µs", figure=best[terret][0], floor=floor[0], target=2.0)
    stored_turn = best[stored][0]
    yield Row(name="  with SQLite", unit="µs", figure=stored_turn, floor=floor[0], target=2.5)
    name = "CPU per step after 775 steps"
    yield Row(name=name, unit="µs", figure=best[terret][1], floor=floor[1], target=1.5)


def chunk_row(url: str) -> Row:
    """Return the processor time of a further chunk of a long answer."""
    cases: list[tuple[Side, int]] = [(s, n) for s in (bare, terret) for n in (1, CHUNKS)]
    best = dict.fromkeys(cases, inf)
    for _ in range(ROUNDS):
        for side, chunks in best:
            times = anyio.run(side, url, f"chunks-{chunks}")
            # Short conversations, so that what is sent counts little.
            best[side, chunks] = min(best[side, chunks], sum(times[:40]) / 40)

    def per_chunk(side: Side) -> float:
        return (best[side, CHUNKS] - best[side, 1]) / (CHUNKS - 1)

    figure, floor = per_chunk(terret), per_chunk(bare)
    return Row(name="CPU per further chunk", unit="µs", figure=figure, floor=floor, target=2.5)


async def bare(url: str, model: str) -> list[float]:
    """Hold a conversation with nothing but an HTTP client."""
    messages: list[dict[str, object]] = []

    async def turn() -> None:
        messages.append({"role": "user", "content": "hello"})
        while True:
            body = {"model": model, "messages": messages, "tools": TOOLS, "stream": True}
            text: list[str] = []
            calls: dict[int, dict[str, str]] = {}
            async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        for choice in from_json(line[6:])["choices"]:
                            delta = choice["delta"]
                            text.append(delta.get("content") or "")
                            for part in delta.get("tool_calls", ()):
                                call = calls.setdefault(part["index"], {"arguments": ""})
                                call["id"] = part.get("id") or call["id"]
                                call["arguments"] += part["function"]["arguments"]
            said = "".join(text)
            if not calls:
                messages.append({"role": "assistant", "content": said})
                return
            made = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": "add", "arguments": call["arguments"]},
                }
                for call in calls.values()
            ]
            messages.append({"role": "assistant", "content": said or None, "tool_calls": made})
            for call in calls.values():
                arguments = json.loads(call["arguments"])
                result = str(arguments["a"] + arguments["b"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async with httpx2.AsyncClient() as client:
        return await turn_times(turn)


async def stored(url: str, model: str) -> list[float]:
    """Hold it with an agent whose session is kept in a database."""
    return await terret(url, model, SQLITE)


def start_row(url: str) -> Row:
    """Return the time from the start of a process to the arrival of its first request."""
    with harness_file(url, "chunks-1") as path:
        script = BARE_START.replace("URL", url).replace("MODEL", "chunks-1")
        run = ["-m", "terret", "run", "--quiet", "--root", str(path.parent), "hello"]
        figures, floors = zip(
            *((start_time(url, run), start_time(url, ["-c", script])) for _ in range(STARTS)),
            strict=True,
        )
    name = "start to first request"
    return Row(name=name, unit="ms", figure=min(figures), floor=min(floors), target=3.0)


def start_time(url: str, arguments: list[str]) -> float:
    question = url.replace("/v1", "/first-request")
    httpx2.get(question)  # forget the requests of other rows
    started = time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    arrived = float(httpx2.get(question).text)
    assert arrived > started
    return (arrived - started) * 1e3


def process_rows(url: str) -> Iterator[Row]:
    """Yield what processes of their own measure: memory, and many conversations at once."""
    rss = measured(url, "one")["rss"]
    yield Row(name="RSS after 200 turns", unit="MB", figure=rss, floor=60, target=1.0)
    runs = [measured(url, "many") for _ in range(ROUNDS)]
    many = {name: min(run[name] for run in runs) for name in runs[0]}
    name = "memory of each of 1,000 agents"
    yield Row(name=name, unit="kB", figure=many["size"], floor=60, target=1.0)
    alone, at_once = many["alone"], many["at_once"]
    name = "CPU per turn, 1,000 at once"
    yield Row(name=name, unit="µs", figure=at_once, floor=alone, target=1.3)
    name = "tasks of 1,000 idle agents"
    yield Row(name=name, unit="  ", figure=many["tasks"], floor=1, target=0.0)


def measured(url: str, what: str) -> dict[str, float]:
    command = [sys.executable, str(HERE / "loop_memory.py"), what, url]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


if __name__ == "__main__":
    sys.exit(report(__doc__, rows()))
