"""What Terret adds to the bare cost of talking to a model.

Each row is measured against a floor in the same run: a bare httpx2 loop that streams from the same
server, which runs in a process of its own. Figures are the best of several alternating rounds:
processor time of this process for turns and chunks, time on the clock for the start.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

import anyio
import httpx2
from pydantic_core import from_json

from terret_agents import Agents
from terret_loader import open_harness

ROUNDS = 7
TURNS = 40
CHUNKS = 500
HERE = Path(__file__).parent

HARNESS = """\
plugins:
  llm: {}
  sessions: {}
  system-prompt: {}
  agents: {}
  tools: {}
  llm-openai: {baseUrl: "URL"}
  agent-loop: {agents: [{id: main, provider: openai, model: MODEL}]}
"""

BARE_START = """\
import asyncio, httpx2
async def main():
    async with httpx2.AsyncClient() as client:
        await client.post("URL/chat/completions", json={"model": "MODEL", "messages": []})
asyncio.run(main())
"""

Side = Callable[[str, int], Coroutine[object, object, float]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure beside the floor of the same run. `ok` is true as long as there is no target."""

    name: str
    unit: str
    figure: float
    floor: float
    target: float | None = None

    @property
    def ratio(self) -> float:
        return self.figure / self.floor

    @property
    def ok(self) -> bool:
        return self.target is None or self.ratio <= self.target

    def __str__(self) -> str:
        figures = f"{self.figure:8.1f} {self.unit}  floor {self.floor:8.1f}  x{self.ratio:.1f}"
        return f"{self.name:14} {figures}"

    def as_json(self) -> dict[str, object]:
        return asdict(self) | {"ratio": round(self.ratio, 2), "ok": self.ok}


def main() -> int:
    """Measure everything and print a table, or with --json one object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help='print {"rows": [...]}')
    options = parser.parse_args()
    with model_server() as url:
        rows = [*processor_rows(url), start_row(url)]
    if options.json:
        print(json.dumps({"rows": [row.as_json() for row in rows]}))
    else:
        print(*rows, sep="\n")
    return 0 if all(row.ok for row in rows) else 1


@contextmanager
def model_server() -> Iterator[str]:
    """Run the server and yield its base address."""
    command = [sys.executable, str(HERE / "model_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.terminate()


def processor_rows(url: str) -> Iterator[Row]:
    """Yield processor time per turn of one chunk, and per further chunk of a long answer."""
    cases: list[tuple[Side, int]] = [(s, n) for s in (bare, terret) for n in (1, CHUNKS)]
    best = dict.fromkeys(cases, inf)
    for _ in range(ROUNDS):
        for side, chunks in best:
            seconds = anyio.run(side, url, chunks)
            best[side, chunks] = min(best[side, chunks], seconds * 1e6 / TURNS)
    yield Row(name="CPU per turn", unit="µs", figure=best[terret, 1], floor=best[bare, 1])

    def per_chunk(side: Side) -> float:
        return (best[side, CHUNKS] - best[side, 1]) / (CHUNKS - 1)

    yield Row(name="CPU per chunk", unit="µs", figure=per_chunk(terret), floor=per_chunk(bare))


async def bare(url: str, chunks: int) -> float:
    """Hold one conversation with nothing but an HTTP client."""
    messages: list[dict[str, str]] = []

    async def turn(client: httpx2.AsyncClient) -> None:
        messages.append({"role": "user", "content": "hello"})
        body = {"model": f"chunks-{chunks}", "messages": messages, "stream": True}
        text: list[str] = []
        async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    for choice in from_json(line[6:])["choices"]:
                        text.append(choice["delta"].get("content", ""))
        assert len(text) == chunks + 2
        messages.append({"role": "assistant", "content": "".join(text)})

    async with httpx2.AsyncClient() as client:
        return await processor_time(lambda: turn(client))


async def terret(url: str, chunks: int) -> float:
    """Hold the same conversation with an agent."""
    with harness_file(url, f"chunks-{chunks}") as path:
        async with open_harness(path) as root:
            agent = root[Agents].named("main")
            assert agent is not None

            async def turn() -> None:
                agent.followup("hello")
                await agent.when_idle()

            seconds = await processor_time(turn)
            answer = agent.session.derive_messages()[-1]
            assert answer.role == "assistant"
            assert len(answer.text.split()) == chunks
            return seconds


async def processor_time(turn: Callable[[], Awaitable[None]]) -> float:
    """Return the processor time of this process for a round of turns, after a warm-up."""
    for _ in range(3):
        await turn()
    start = time.process_time()
    for _ in range(TURNS):
        await turn()
    return time.process_time() - start


def start_row(url: str) -> Row:
    """Return the time from the start of a process to the arrival of its first request."""
    with harness_file(url, "chunks-1") as path:
        script = BARE_START.replace("URL", url).replace("MODEL", "chunks-1")
        run = ["-m", "terret", "run", "--quiet", "--root", str(path.parent), "hello"]
        figures, floors = zip(
            *((start_time(url, run), start_time(url, ["-c", script])) for _ in range(ROUNDS)),
            strict=True,
        )
    return Row(name="start", unit="ms", figure=min(figures), floor=min(floors))


def start_time(url: str, arguments: list[str]) -> float:
    question = url.replace("/v1", "/first-request")
    httpx2.get(question)  # forget the requests of other rows
    started = time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    arrived = float(httpx2.get(question).text)
    assert arrived > started
    return (arrived - started) * 1e3


@contextmanager
def harness_file(url: str, model: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "harness.yml"
        path.write_text(HARNESS.replace("URL", url).replace("MODEL", model), "utf-8")
        yield path


if __name__ == "__main__":
    sys.exit(main())
