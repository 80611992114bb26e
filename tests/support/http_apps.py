"""The HTTP service of a project, in this process, and a client of it."""

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.types import ASGIApp, Message

from agent_projects import Project, Running
from terret_llm import Llm
from terret_loader import open_harness
from terret_plugin_agent_folders import AgentFolders
from terret_plugin_http import create_app
from terret_testing import Answer, script

SERVICE = """
plugins:
  llm: {}
  sessions: {}
  session-jsonl: {}
  system-prompt: {}
  agents: {}
  tools: {}
  agent-loop: {}
  checkpoint-policy: {}
  token-meter: {}
  loop-events: {validateEvery: 1}
  tool-decisions: {}
  permissions: {}
  approval: {}
  questions: {}
  agent-folders:
    defaults: {model: {provider: scripted, model: m}}
  http: {HTTP}
"""
ASK_ALL = "systemPrompt: Sell things.\npermissions: {default: ask, rules: []}"
SELL = """
from terret_tools import tool

@tool
def sell(item: str) -> str:
    \"\"\"Sells something.\"\"\"
    return f"sold {item}"
"""
STREAM = "/agents/shop/messages/stream"
HI = {"message": "Hi", "sessionId": "one"}
ONE = "default:production:shop:one"
"""The id of the session `one` of the agent `shop`."""
ALLOW_ALL = "systemPrompt: Sell things.\npermissions: {default: allow, rules: []}"


@dataclass
class Reply:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error, with its status."""
        return f"{self.status} {self.json['code']}"

    @property
    def types(self) -> list[str]:
        """The types of its events."""
        return [event["type"] for event in self.json["events"]]


@dataclass
class Frame:
    """One server-sent event, or a comment."""

    event: str = ""
    data: Any = None
    id: str | None = None
    raw: str = ""


@dataclass
class Stream:
    """An answer that is still being written."""

    status: int
    headers: dict[str, str]
    chunks: MemoryObjectReceiveStream[bytes]
    gone: anyio.Event
    cut: anyio.Event
    """Set when the app has ended its answer, in order or not."""
    _rest: bytes = field(default=b"")

    def disconnect(self) -> None:
        """Goes away in the middle."""
        self.gone.set()

    async def frame(self) -> Frame | None:
        """Returns the next frame, `None` at the end."""
        with anyio.fail_after(10):
            while b"\n\n" not in self._rest:
                try:
                    self._rest += await self.chunks.receive()
                except anyio.EndOfStream:
                    assert self._rest == b""
                    return None
        raw, self._rest = self._rest.split(b"\n\n", 1)
        return _parsed(raw.decode())

    async def events(self, *, until: str | None = None, count: int | None = None) -> list[Frame]:
        """Returns the events up to the end, one of that type, or so many."""
        frames: list[Frame] = []
        while count is None or len(frames) < count:
            frame = await self.frame()
            if frame is None:
                break
            if frame.event:
                frames.append(frame)
            if until is not None and frame.event == until:
                break
        return frames


class Client:
    """Sends requests to an ASGI app, without any network."""

    def __init__(self, app: ASGIApp, *, root_path: str = "") -> None:
        self.app = app
        self.root_path = root_path
        self.address = ("127.0.0.1", 50000)
        self.headers = {"host": "localhost:8787"}

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.request("GET", path, headers=headers)

    async def post(
        self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        return await self.request("POST", path, body, headers=headers)

    async def send(self, text: str, agent: str = "shop", **fields: object) -> Reply:
        """Sends a message and waits."""
        return await self.post(f"/agents/{agent}/messages", {"message": text, **fields})

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Returns the whole answer; a body is bytes, or becomes JSON."""
        async with self.stream(method, path, body, headers=headers) as stream:
            whole = b""
            with anyio.fail_after(10):
                async for chunk in stream.chunks:
                    whole += chunk
            return Reply(stream.status, stream.headers, whole)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        takes: float = math.inf,
    ) -> AsyncIterator[Stream]:
        """Gives the answer when it begins; leaving the block disconnects, and waits for the app.

        After so many pieces the client takes no more.
        """
        given = {**self.headers, **(headers or {})}
        if body is not None:
            given.setdefault("content-type", "application/json")
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with anyio.create_task_group() as group:
            exchange = _Exchange(b"" if body is None else raw, takes)
            scope = self._scope(method, path, given)
            group.start_soon(exchange.run, self.app, scope)
            async with exchange.started, exchange.chunks:
                with anyio.fail_after(10):
                    start = await exchange.started.receive()
                names = {name.decode(): value.decode() for name, value in start["headers"]}
                yield Stream(start["status"], names, exchange.chunks, exchange.gone, exchange.cut)
                exchange.gone.set()

    def _scope(self, method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        raw_path, _, query = path.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": self.root_path + unquote(raw_path),
            "raw_path": (self.root_path + raw_path).encode(),
            "root_path": self.root_path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), v.encode()) for name, v in headers.items()],
            "client": self.address,
            "server": ("127.0.0.1", 8787),
        }


class _Exchange:
    """One request on its way through an app."""

    def __init__(self, body: bytes, takes: float) -> None:
        self.gone = anyio.Event()
        self.cut = anyio.Event()
        self._body: bytes | None = body
        self._takes = takes
        self._start, self.started = anyio.create_memory_object_stream[Message](1)
        self._write, self.chunks = anyio.create_memory_object_stream[bytes](float("inf"))

    async def run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        async with self._start, self._write:
            await app(scope, self._receive, self._send)
        self.cut.set()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.gone.is_set():
            return  # as a server does that has seen the client go
        self._takes -= 1
        if self._takes < 0:
            await anyio.sleep_forever()
        if message["type"] == "http.response.start":
            self._start.send_nowait(message)
        elif message.get("body"):
            self._write.send_nowait(message["body"])


@dataclass
class Service(Running):
    """A running service."""

    client: Client


@asynccontextmanager
async def run_service(
    project: Project, *answers: Answer, http: str = "{}", root_path: str = "", more: str = ""
) -> AsyncIterator[Service]:
    """Starts the service of a project, with a model that gives these answers."""
    project.write({"harness.yml": SERVICE.replace("{HTTP}", http) + more})
    model = script(*answers)
    async with open_harness(project.root / "harness.yml", env={}) as root:
        root[Llm].register_adapter("scripted", model)
        client = Client(create_app(root), root_path=root_path)
        yield Service(root, root[AgentFolders], model, client)


async def until(condition: Callable[[], bool]) -> None:
    """Lets everything else go on until the condition holds."""
    with anyio.fail_after(10):
        while not condition():
            await anyio.wait_all_tasks_blocked()


def _parsed(raw: str) -> Frame:
    frame = Frame(raw=raw)
    for line in raw.split("\n"):
        name, _, value = line.partition(": ")
        if name == "event":
            frame.event = value
        elif name == "data":
            assert frame.data is None, "one data line"
            frame.data = json.loads(value)
        elif name == "id":
            frame.id = value
    return frame
