"""What reading a model's answer and writing a request cost.

Each figure and its floor are measured in the same run, in alternating rounds, the best of which
counts: processor time of this process. The model server runs in a process of its own and sends
prepared bytes. The floor of the streams is a bare httpx2 loop that parses the JSON of each event.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from math import inf
from pathlib import Path
from typing import TypeVar

import anyio
import httpx2
from figures import Row, report
from pydantic_core import from_json

from terret_context import Container
from terret_llm import (
    BlockAssembler,
    GenerateOptions,
    Llm,
    ToolCallBlock,
    create_assistant_message,
    create_tool_result_message,
    create_user_message,
)
from terret_llm.chat import ChatCodec
from terret_plugin_llm_openai import llm_openai
from terret_sessions import Session

ROUNDS = 7
CHUNKS = 1000
STREAMS = 20
AT_ONCE = 200
CHUNKS_AT_ONCE = 50
IMPORTS = 15
HERE = Path(__file__).parent

K = TypeVar("K")
Ask = Callable[[int], Awaitable[str]]


def rows() -> Iterator[Row]:
    """Yield the measured rows."""
    with model_server() as url:
        yield anyio.run(chunk_row, url)
        yield anyio.run(concurrency_row, url)
    yield import_row()
    yield request_row()


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


@asynccontextmanager
async def terret(url: str) -> AsyncIterator[Ask]:
    """Answer through the service and the plugin, assembled, without a session."""
    async with Container() as root:
        await root.plugin(Llm).ready()
        await root.plugin(llm_openai, {"baseUrl": url}).ready()
        llm, messages = root[Llm], (create_user_message("hello"),)

        async def ask(chunks: int) -> str:
            request = GenerateOptions(
                provider="openai", model=f"chunks-{chunks}", messages=messages
            )
            assembler = BlockAssembler()
            async with aclosing(llm.stream(request)) as stream:
                async for chunk in stream:
                    assembler.push(chunk)
            assert not assembler.finish.failed, assembler.finish.failure
            [block] = assembler.blocks()
            return getattr(block, "text", "")

        yield ask


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Ask]:
    """Answer with nothing but an HTTP client and a JSON parser."""
    async with httpx2.AsyncClient(timeout=None) as client:

        async def ask(chunks: int) -> str:
            messages = [{"role": "user", "content": "hello"}]
            body = {"model": f"chunks-{chunks}", "messages": messages, "stream": True}
            text: list[str] = []
            async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        for choice in from_json(line[6:])["choices"]:
                            text.append(choice["delta"].get("content", ""))
            return "".join(text)

        yield ask


async def chunk_row(url: str) -> Row:
    """Return the cost of a further chunk of an answer."""
    async with terret(url) as ours, bare(url) as floor:
        best = await best_of({(ask, n): once(ask, n) for ask in (ours, floor) for n in (1, CHUNKS)})

    def per_chunk(ask: Ask) -> float:
        return (best[ask, CHUNKS] - best[ask, 1]) / (CHUNKS - 1) * 1e6

    name = "CPU per streamed chunk"
    return Row(name=name, unit="µs", figure=per_chunk(ours), floor=per_chunk(floor), target=1.6)


async def concurrency_row(url: str) -> Row:
    """Return the cost of a stream among 200, against one at a time."""
    async with terret(url) as ask:
        many, one = together(ask, CHUNKS_AT_ONCE), in_turn(ask, CHUNKS_AT_ONCE)
        best = await best_of({"many": many, "one": one})
    figures = {key: seconds / AT_ONCE * 1e6 for key, seconds in best.items()}
    return Row(
        name=f"CPU per stream, {AT_ONCE} at once",
        unit="µs",
        figure=figures["many"],
        floor=figures["one"],
        target=1.3,
    )


def once(ask: Ask, chunks: int) -> Callable[[], Awaitable[float]]:
    """Return what measures one answer, as a mean of several."""

    async def run() -> float:
        return await processor_time(lambda: repeated(ask, chunks, STREAMS)) / STREAMS

    return run


def in_turn(ask: Ask, chunks: int) -> Callable[[], Awaitable[float]]:
    """Return what measures as many answers, one after the other."""

    async def run() -> float:
        return await processor_time(lambda: repeated(ask, chunks, AT_ONCE))

    return run


def together(ask: Ask, chunks: int) -> Callable[[], Awaitable[float]]:
    """Return what measures as many answers at once."""

    async def all_at_once() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(repeated, ask, chunks, 1)

    async def run() -> float:
        return await processor_time(all_at_once)

    return run


async def repeated(ask: Ask, chunks: int, times: int) -> None:
    for _ in range(times):
        await ask(chunks)


async def processor_time(work: Callable[[], Awaitable[object]]) -> float:
    """Return the processor time of this process while something is done."""
    start = time.process_time()
    await work()
    return time.process_time() - start


async def best_of(runs: dict[K, Callable[[], Awaitable[float]]]) -> dict[K, float]:
    """Return the best of several alternating rounds, after one that does not count."""
    best = dict.fromkeys(runs, inf)
    for number in range(ROUNDS + 1):
        for key, run in runs.items():
            seconds = await run()
            if number:
                best[key] = min(best[key], seconds)
    return best


def import_row() -> Row:
    """Return the cost of a process that imports terret_llm, against pydantic and anyio alone.

    pydantic is not among its imports any more: it comes with the first `Config`. Bytecode is cached
    for both, as it is where packages are installed.
    """
    ours, theirs = "import terret_llm", "from pydantic import BaseModel; import anyio"
    best = {ours: inf, theirs: inf}
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(IMPORTS + 1):
            for code in best:
                milliseconds = child_time([sys.executable, "-c", code], env)
                if number:
                    best[code] = min(best[code], milliseconds)
    name = "cold import of terret_llm"
    return Row(name=name, unit="ms", figure=best[ours], floor=best[theirs], target=1.3)


def child_time(command: list[str], env: dict[str, str]) -> float:
    """Return the processor time of a child process."""
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=env)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (end.ru_utime - start.ru_utime + end.ru_stime - start.ru_stime) * 1e3


def request_row() -> Row:
    """Return the cost of the next request of a long conversation, against one of a short one.

    The floor is the short one and the memory that the further bytes of the long one cost to copy.
    """
    sizes = {800: inf, 50: inf}
    lengths: dict[int, int] = {}
    copied = inf
    for _ in range(60):
        for size in sizes:
            seconds, lengths[size] = build(size)
            sizes[size] = min(sizes[size], seconds)
        copied = min(copied, copy_time(lengths[800] - lengths[50]))
    return Row(
        name="request at 800 messages",
        unit="µs",
        figure=sizes[800] * 1e6,
        floor=(sizes[50] + copied) * 1e6,
        target=1.3,
    )


def conversation(size: int) -> Session:
    """Return a session whose steps have a tool: question, call, result, answer."""
    session, messages = Session(), []
    for number in range(size // 4 + 1):
        call = ToolCallBlock(f"call_{number:024}", "read_file", '{"path":"src/main.py"}')
        messages += [
            create_user_message(f"Please look at file {number}. " * 4),
            create_assistant_message([call], "openai", "m"),
            create_tool_result_message(call.id, "line of a file\n" * 60),
            create_assistant_message("It does what it should. " * 20, "openai", "m"),
        ]
    for message in messages:
        session.append("user/message", message, surface_op="append")
    return session


def build(size: int) -> tuple[float, int]:
    """Return seconds and bytes of one more request, after one that was four messages shorter."""
    codec, messages = ChatCodec(), conversation(size).derive_messages()

    def request(upto: int) -> GenerateOptions:
        return GenerateOptions(provider="openai", model="m", messages=messages[:upto])

    codec.encode_request(request(size - 4))
    last = request(size)
    start = time.process_time()
    body = codec.encode_request(last)
    return time.process_time() - start, len(body)


def copy_time(size: int) -> float:
    """Return the seconds of copying so many bytes."""
    source = bytearray(size)
    start = time.process_time()
    bytes(source)
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(report(__doc__, rows()))
