"""The command line as processes that a test reads, asks and signals; and projects for them."""

import json
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from terret_plugin_agent_folders import scaffold_project

PATIENCE = 60
"""Seconds after which a program that says nothing has failed."""

MIRROR = '''
"""A model that says its prompt and what it was told, and calls the tool in `use NAME {...}`."""

import json
from contextlib import aclosing

from terret_context import plugin
from terret_llm import Llm, LlmAdapter
from terret_testing import call, say, script


class Mirror(LlmAdapter):
    async def stream(self, request):
        message = request.messages[-1]
        last = message.text or message.content[0].text  # of a tool
        _, name, arguments = [*last.split(" ", 2), "", ""][:3]
        answer = say(f"{request.system.split()[-1]}: {last}")
        if last.startswith("use "):
            answer = call(name, **json.loads(arguments or "{}"))
        async with aclosing(script(answer).stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk


@plugin(inject=(Llm,))
def mirror(ctx):
    ctx[Llm].register_adapter("mirror", Mirror())
'''


def new_project(folder: Path, more: str = "") -> Path:
    """Writes what `terret init` writes, with a model of its own; `more` are lines of plugins."""
    scaffold_project(folder)
    harness = folder / "harness.yml"
    text = harness.read_text().replace("{provider: local}", "{provider: mirror, model: m}")
    harness.write_text(f"{text}  mirror: {{use: ./mirror.py}}\n  http: {{port: 0}}\n{more}")
    (folder / "mirror.py").write_text(MIRROR)
    (folder / "agents/main/agent.yml").write_text("systemPrompt: Old\n")
    return folder


def free_port() -> int:
    """Returns a port that nobody has, below those that connections are given by chance."""
    for port in random.sample(range(20000, 32000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


class Program:
    """A running command line. Each line it prints can be waited for."""

    def __init__(self, folder: Path, *words: str, env: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "terret", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **env},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def line(self, text: str, times: int = 1) -> str:
        """Waits until so many lines hold a text, and returns the last of them."""

        def found() -> list[str]:
            return [line for line in self.lines if text in line]

        with self._news:
            self._news.wait_for(
                lambda: len(found()) >= times or not self._reader.is_alive(), PATIENCE
            )
            assert len(found()) >= times, f"no {text!r} in:\n" + "\n".join(self.lines)
            return found()[times - 1]

    def address(self, times: int = 1) -> str:
        """Waits until it listens, for the so many'th time, and returns where."""
        return self.line("listening on ", times).split()[2].rstrip(",")

    def end(self, *signals: int) -> int:
        """Sends signals, waits for the end of it and of all it started; returns the exit code."""
        for number in signals:
            self.process.send_signal(number)
        self._reader.join(PATIENCE)
        assert not self._reader.is_alive(), "\n".join(self.lines)
        return self.process.wait(PATIENCE)


@contextmanager
def program(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """Runs a command line; what still runs at the end of the block is killed."""
    started = Program(folder, *words, env=env or {})
    try:
        yield started
    finally:
        started.process.kill()
        started.end()


def ask(url: str, body: object = None) -> tuple[int, Any]:
    """Sends a GET, or with a body a POST; returns status and JSON."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {"Content-Type": "application/json"})) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


@contextmanager
def events(url: str, body: object = None) -> Iterator[Iterator[bytes]]:
    """Gives the lines of the stream that answers a GET, or with a body a POST."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"})) as answer:
        yield iter(answer)


def say(address: str, text: str, *, agent: str = "main", **fields: object) -> Any:
    """Sends a message and returns the answer."""
    return ask(f"{address}/agents/{agent}/messages", {"message": text, **fields})[1]
