"""The port: opened on demand, closed by a drain."""

import json
import socket
from functools import partial
from urllib.request import urlopen

import anyio
import pytest
from anyio import to_thread

from agent_projects import Project
from http_apps import run_service
from terret_plugin_http import Http, PortInUseError, UnsafeBindError

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def fetch(url: str) -> object:
    with urlopen(url, timeout=5) as answer:
        return json.load(answer)


@asyncio_only
async def test_the_service_answers_on_a_port_until_it_is_drained(project: Project) -> None:
    """E-190, E-194: `serve` returns then, and nobody answers any more."""
    urls: list[str] = []
    async with run_service(project, http="{port: 0}") as service:
        http = service.ctx[Http]
        async with anyio.create_task_group() as group:
            opened = anyio.Event()

            def bound(url: str) -> None:
                urls.append(url)
                opened.set()

            group.start_soon(partial(http.serve, bound=bound))
            await opened.wait()
            assert await to_thread.run_sync(fetch, f"{urls[0]}/readyz") == {"status": "ready"}
            await http.drain()
        with pytest.raises(OSError, match="refused"):
            await to_thread.run_sync(fetch, f"{urls[0]}/healthz")


@asyncio_only
async def test_a_port_that_others_reach_needs_a_token(project: Project) -> None:
    """E-201: The error says what to do, and nothing listens."""
    async with run_service(project, http='{host: "0.0.0.0", port: 0}') as service:
        with pytest.raises(UnsafeBindError, match="TERRET_API_TOKEN"):
            await service.ctx[Http].serve()


@asyncio_only
async def test_a_port_that_is_in_use_is_named(project: Project) -> None:
    """E-250: It is refused before anything is served."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with run_service(project, http=f"{{port: {port}}}") as service:
            with pytest.raises(PortInUseError, match=str(port)):
                await service.ctx[Http].serve()
