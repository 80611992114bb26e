"""Servers of event streams that measure themselves, each in a process of its own.

`sse_servers.py terret|bare turn|idle FILE` prints a figure; `service.py` runs it. Both send the
same bytes: what a client of Terret was sent is in FILE.
"""

import sys

sys.modules["trio"] = None  # type: ignore[assignment]  # comes with the tests, not with Terret

import asyncio  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import AsyncIterator  # noqa: E402
from contextlib import asynccontextmanager  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

import anyio  # noqa: E402
import httpx2  # noqa: E402
import uvicorn  # noqa: E402
from conversations import model_server  # noqa: E402
from loop_memory import megabytes  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import Response, StreamingResponse  # noqa: E402
from starlette.routing import Route  # noqa: E402

from terret_loader import open_harness  # noqa: E402
from terret_plugin_http import Http  # noqa: E402

READERS = 200
WAITING = 1000
WARM = 50
EVENTS = "/agents/main/sessions/s/events?follow=session"
MESSAGES = "/agents/main/messages"
MESSAGE = {"message": "go", "sessionId": "s"}

AGENT = {
    "harness.yml": """\
extends: [service]
plugins:
  http: {port: 0}
  llm-openai: {baseUrl: "URL"}
  permissions: null
""",
    "agents/main/agent.yml": """\
systemPrompt: Add.
model: {provider: openai, model: tools-50-1}
maxTurns: 100
""",
    "agents/main/tools/add.py": """\
from terret_tools import tool

@tool
async def add(a: float, b: float) -> float:
    'Add two numbers.'
    return a + b
""",
}


async def main(side: str, what: str, sent: str) -> tuple[float, str]:
    """Serve the clients and measure this process; return also what a client was sent."""
    gc.set_threshold(10_000)  # as the program `terret` does
    async with terret() if side == "terret" else bare(sent) as url:
        async with httpx2.AsyncClient() as client:  # so that there is a session to follow
            await client.post(url + MESSAGES, json=MESSAGE)
        return (await idle(url), sent) if what == "idle" else await turn(url)


async def turn(url: str) -> tuple[float, str]:
    """Let all clients follow a turn; return the processor time per event, in microseconds."""
    async with clients(url, READERS, url + MESSAGES, json.dumps(MESSAGE)) as answers:
        start = time.process_time_ns()
        text: str = json.loads(await answers.readline())
        spent = time.process_time_ns() - start
    return spent / 1000 / READERS / text.count("\ndata: "), text


async def idle(url: str) -> float:
    """Let clients wait for events; return the memory that each of them takes, in kilobytes."""
    async with clients(url, WARM):
        gc.collect()
        empty = megabytes()
    async with clients(url, WAITING):
        gc.collect()
        return (megabytes() - empty) * 1000 / WAITING


@asynccontextmanager
async def clients(url: str, count: int, *post: str) -> AsyncIterator[asyncio.StreamReader]:
    """Run the clients, and yield what they print when all of them have begun."""
    script = Path(__file__).with_name("sse_clients.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(script), url + EVENTS, str(count), *post),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=2**24,
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def terret() -> AsyncIterator[str]:
    """Serve an agent that adds numbers."""
    with model_server() as model, tempfile.TemporaryDirectory() as folder:
        for name, text in AGENT.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("URL", model), "utf-8")
        async with open_harness(Path(folder) / "harness.yml") as root:
            bound = asyncio.get_running_loop().create_future()
            async with anyio.create_task_group() as group:
                group.start_soon(partial(root[Http].serve, bound=bound.set_result))
                yield await bound
                await root[Http].drain(0)


@asynccontextmanager
async def bare(sent: str) -> AsyncIterator[str]:
    """Serve what anybody would write: a queue for each client, and a frame into each of them."""
    opening, *frames = [f"{frame}\n\n".encode() for frame in sent.split("\n\n") if frame]
    queues: set[asyncio.Queue[bytes]] = set()

    async def events(request: Request) -> Response:
        queue = asyncio.Queue[bytes]()
        queue.put_nowait(opening)

        async def stream() -> AsyncIterator[bytes]:
            queues.add(queue)
            try:
                while True:
                    yield await queue.get()
            finally:
                queues.remove(queue)

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def messages(request: Request) -> Response:
        for frame in frames:
            for queue in queues:
                queue.put_nowait(frame)
            await asyncio.sleep(0)
        return Response()

    path, _, _ = EVENTS.partition("?")
    routes = [Route(path, events), Route(MESSAGES, messages, methods=["POST"])]
    app = Starlette(routes=routes)
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            server.should_exit = server.force_exit = True


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    side, what, path = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    figure, sent = anyio.run(main, side, what, path.read_text("utf-8") if path.exists() else "")
    path.write_text(sent, "utf-8")
    print(figure)
