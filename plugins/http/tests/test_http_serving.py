"""The port: opened on demand, closed by a drain."""

import json
import socket
from urllib.request import urlopen

import anyio
import pytest
from anyio import to_thread

from agent_projects import Project
from http_apps import run_service
from terret_plugin_http import Http, UnsafeBindError

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def bound(host: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket()
    sock.bind((host, 0))
    return sock


def fetch(url: str) -> object:
    with urlopen(url, timeout=5) as answer:
        return json.load(answer)


@asyncio_only
async def test_the_service_answers_on_a_port_until_it_is_drained(project: Project) -> None:
    """E-190, E-194: `serve` returns then, and nobody answers any more."""
    async with run_service(project) as service, anyio.create_task_group() as group:
        http, sock, ready = service.ctx[Http], bound(), anyio.Event()
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"

        async def serve() -> None:
            await http.serve(sock, ready=ready.set)

        group.start_soon(serve)
        await ready.wait()
        assert await to_thread.run_sync(fetch, f"{url}/readyz") == {"status": "ready"}
        http.drain()
        await http.drained()
    with pytest.raises(OSError, match="refused"):
        await to_thread.run_sync(fetch, f"{url}/healthz")


@asyncio_only
async def test_a_port_that_others_reach_needs_a_token(project: Project) -> None:
    """E-201: The error says what to do."""
    async with run_service(project) as service:
        with bound("0.0.0.0") as sock, pytest.raises(UnsafeBindError, match="TERRET_API_TOKEN"):
            await service.ctx[Http].serve(sock)
