"""The program as a user runs it, and a server for it to talk to: fixtures of the tests here."""

import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from terret.__main__ import main

ROOT = Path(__file__).parents[2]


@dataclass
class ChatServer:
    """A real HTTP server that speaks chat completions; the first path segment says how it behaves.

    `/ok` calls the tool `add` for a request that offers it, then answers with the result; `/shop`
    calls `issue_refund` when it is asked to; `/500`, `/401`, `/cut` and `/garbage` fail.
    """

    port: int = 0
    requests: list[dict[str, object]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def url(self, behaviour: str) -> str:
        """The base URL of one behaviour."""
        return f"http://127.0.0.1:{self.port}/{behaviour}/v1"

    def answer(self, behaviour: str, body: dict[str, object]) -> tuple[int, str, bytes]:
        """Status, content type and body of the response."""
        self.requests.append(body)
        match behaviour:
            case "401":
                return 401, "application/json", b'{"error": {"message": "bad key sk-secret-1"}}'
            case "500":
                return 500, "application/json", b'{"error": {"message": "the server is on fire"}}'
            case "cut":
                return 200, "text/event-stream", _event({"content": "half an ans"})
            case "garbage":
                return 200, "text/html", b"<html>Please log in</html>"
            case "model":
                return 404, "application/json", _unknown_model(body)
            case "shop":
                return 200, "text/event-stream", _refund(_last(body))
        return 200, "text/event-stream", _stream(body)


def _last(body: dict[str, object]) -> dict[str, str]:
    messages = body["messages"]
    assert isinstance(messages, list)
    found: dict[str, str] = messages[-1]
    return found


def _refund(last: dict[str, str]) -> bytes:
    text = last["content"]
    asked = re.search(r"Refund (\d+) euros for order (\S+)\.", text)
    if asked and last["role"] == "user":
        call = _call("issue_refund", order=asked[2], amount=int(asked[1]))
        said = _event(call) + _event({}, "tool_calls")
    else:
        said = _event({"content": f"{text[0].upper()}{text[1:]}."}) + _event({}, "stop")
    return said + b"data: [DONE]\n\n"


def _stream(body: dict[str, object]) -> bytes:
    last = _last(body)
    if last["role"] == "tool":
        said = _event({"content": f"The result is {last['content']}."}) + _event({}, "stop")
    elif body.get("tools"):
        said = _event(_call("add", a=17, b=25)) + _event({}, "tool_calls")
    else:
        said = _event({"content": f"You said: {last['content']}"}) + _event({}, "stop")
    return said + b"data: [DONE]\n\n"


def _unknown_model(body: dict[str, object]) -> bytes:
    text = f"The model `{body['model']}` does not exist"
    return json.dumps({"error": {"message": text, "code": "model_not_found"}}).encode()


def _event(delta: dict[str, object], reason: str | None = None) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _call(name: str, **arguments: object) -> dict[str, object]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}


@pytest.fixture
def chat_server() -> Iterator[ChatServer]:
    """A running `ChatServer`."""
    served = ChatServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            served.keys.append(self.headers["Authorization"])
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, kind, data = served.answer(self.path.split("/")[1], body)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Keeps standard error for the program under test."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


class Ended(NamedTuple):
    """How the program ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Project:
    """A folder with a harness.yml, in which `terret` is run as a separate process."""

    folder: Path

    def harness(
        self, url: str, *, tools: str = "tools-demo: {}", loop: str = "agent-loop: {AGENTS}"
    ) -> None:
        """Writes a harness.yml whose one agent, `main`, talks to the model server at `url`."""
        agents = "agents: [{id: main, provider: openai, model: test}]"
        entries = ["llm", "sessions", "system-prompt", "agents", "tools", "session-jsonl"]
        entries.append("loop-events")
        lines = [f"{entry}: {{}}" for entry in entries]
        lines.append(f'llm-openai: {{baseUrl: "{url}"}}')
        lines += [tools, loop.replace("AGENTS", agents)]
        self.write("harness.yml", "plugins:\n" + "".join(f"  {line}\n" for line in lines))

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the project."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def command(self, *words: str) -> list[str]:
        """The command line of the program."""
        return [sys.executable, "-m", "terret", *words]

    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
        """Starts the program, to be waited for by the test."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, stdin: str = "") -> Ended:
        """Runs the program in this process, which is faster, to its end."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            patch.setattr("terret._terminal.TERMINAL", "no-terminal")
            patch.setattr("sys.stdin", io.StringIO(stdin))
            with pytest.raises(SystemExit) as ended:
                main(words)
        return Ended(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    def run_apart(self, *words: str, stdin: str = "") -> Ended:
        """Runs the program as a process of its own to its end."""
        ended = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """An empty project; keys of the environment do not reach it, nor what it reads others."""
    environment = dict(os.environ)
    for name in ("OPENAI_API_KEY", "TERRET_ROOT"):
        monkeypatch.delenv(name, raising=False)
    yield Project(tmp_path)
    os.environ.clear()
    os.environ.update(environment)
