"""The port: opened on demand, closed by a drain."""

import json
import socket
import subprocess
import sys
from functools import partial
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio
import pytest
from anyio import to_thread

from agent_projects import Project
from http_apps import SERVICE, Client, run_service, until
from terret_context import Context
from terret_loader import open_harness
from terret_plugin_http import Http, PortInUseError, UnsafeBindError, create_app

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
            with pytest.raises(HTTPError) as missing:
                await to_thread.run_sync(fetch, f"{urls[0]}/agents/shop/sessions/a%2Fb")
            assert json.load(missing.value)["sessionId"] == "a/b"
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


async def test_the_service_is_ready_when_all_plugins_have_loaded(project: Project) -> None:
    """E-194: Until then readyz is 503, healthz 200."""
    project.write({"harness.yml": SERVICE.replace("{HTTP}", "{}")})
    loaded = anyio.Event()

    async def slow(ctx: Context) -> None:
        await loaded.wait()

    async with open_harness(project.root / "harness.yml", env={}) as root:
        fiber = root.plugin(slow)
        client = Client(create_app(root))
        ready = await client.get("/readyz")
        assert (ready.status, ready.json) == (503, {"status": "starting"})
        assert (await client.get("/healthz")).status == 200
        loaded.set()
        await fiber.ready()
        await until(lambda: root[Http].status != "starting")
        assert (await client.get("/readyz")).status == 200
        head = await client.request("HEAD", "/agents/shop/sessions/none/events")
        assert head.status == 404


@asyncio_only
async def test_serving_ends_with_the_plugin(project: Project) -> None:
    """A changed setting makes a new service; whoever serves may serve that one."""
    async with run_service(project, http="{port: 0}") as service:
        http = service.ctx[Http]
        async with anyio.create_task_group() as group:
            opened = anyio.Event()
            group.start_soon(partial(http.serve, bound=lambda url: opened.set()))
            await opened.wait()
            await http.ctx.fiber.update({"port": 0, "basePath": "/api"})
        assert service.ctx[Http].status == "starting"


def test_mounting_imports_no_server() -> None:
    """The preset mounts the service for commands that serve nothing, too."""
    code = (
        "import terret_plugin_http, sys; print({'uvicorn', 'starlette.routing'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
