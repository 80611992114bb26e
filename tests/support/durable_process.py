"""A real harness in a process of its own, which is killed: started by fork, since that is quick.

`python durable_process.py` reads one JSON object a line, forks a harness for it and prints its pid.
"""

import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import anyio
import pytest

from durable_plugin import Journal
from terret_agents import Agent, Agents
from terret_loader import installed_plugins, open_harness
from terret_sessions import Sessions, TurnEnd

AGENT, SESSION = "main", "talk"
PLUGINS = (
    *("llm", "sessions", "log-invariants", "system-prompt", "agents", "tools"),
    *("session-jsonl", "session-sqlite", "checkpoint-policy", "agent-loop"),
)


def main() -> None:
    """Fork a harness for each line of standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    for each in installed_plugins():
        if each.name in PLUGINS:
            each.load()
    for backend in anyio.get_all_backends():
        anyio.run(anyio.lowlevel.checkpoint, backend=backend)
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _run(json.loads(line))
        print(pid, flush=True)


def _run(task: dict[str, Any]) -> None:
    folder = Path(task["folder"])
    journal = Journal(folder / "journal")
    log = os.open(folder / "stderr", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 0
    try:
        anyio.run(_live, folder, journal, task, backend=task["backend"])
    except BaseException:
        journal.write("crashed")
        traceback.print_exc()
        code = 1
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _live(folder: Path, journal: Journal, task: dict[str, Any]) -> None:
    chance = random.Random(task["seed"])
    sets = ["agents.autostart=false", f"durable.seed={task['seed']}"]
    async with open_harness(folder / "harness.yml", sets=sets) as root:
        try:
            agent = await root[Agents].start(AGENT, session_id=SESSION)
        except Exception as error:
            journal.write("refused", type(error).__name__, str(error))
            return
        journal.write("ready", len(agent.session.events))
        async with anyio.create_task_group() as group:
            group.start_soon(_acknowledge, root[Sessions], agent, journal, chance)
            for act, *words in task["acts"]:
                await _ACTS[act](agent, journal, *words)
            group.cancel_scope.cancel()
    journal.write("left")


async def _acknowledge(
    sessions: Sessions, agent: Agent, journal: Journal, chance: random.Random
) -> None:
    """Flush now and then, and write down what every flush has promised."""
    while True:
        await anyio.sleep(chance.random() / 100)
        count = len(agent.session.events)
        try:
            await sessions.flush(agent.session)
        except Exception as error:
            journal.write("unkept", count, error)
        else:
            journal.write("kept", count)


async def _turn(agent: Agent, journal: Journal) -> None:
    agent.followup(f"prompt {agent.session.last_turn + 1}")
    await agent.when_idle()
    ends = [e.view for e in reversed(agent.session.events) if isinstance(e.view, TurnEnd)]
    journal.write("turn", ends[0].turn, ends[0].reason.kind)


async def _turns(agent: Agent, journal: Journal) -> None:
    while True:
        await _turn(agent, journal)


async def _limit(agent: Agent, journal: Journal, size: int) -> None:
    """Let no file grow beyond `size` bytes more than what the largest has now; -1: any size."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    largest = max(path.stat().st_size for path in journal.folder.rglob("*") if path.is_file())
    limit = hard if size < 0 else largest + size
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))


async def _wait(agent: Agent, journal: Journal, name: str) -> None:
    """Say that this point is reached, and wait until the test makes a file of this name."""
    journal.write("waits", name)
    path = anyio.Path(journal.folder / name)
    while not await path.exists():  # noqa: ASYNC110 - another process makes it
        await anyio.sleep(0.005)


_ACTS: dict[str, Callable[..., Any]] = {
    "turn": _turn,
    "turns": _turns,
    "limit": _limit,
    "wait": _wait,
}


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


class Zygote:
    """The parent of harness processes; use as a context manager."""

    def __enter__(self) -> "Zygote":
        self._turn = Lock()
        folders = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def start(
        self, folder: Path, *acts: object, seed: int = 0, backend: str = "asyncio"
    ) -> "Child":
        """Start the harness of `folder`, to do these acts and leave."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        task = {"folder": str(folder), "acts": acts, "seed": seed, "backend": backend}
        with self._turn:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
            return Child(int(self._process.stdout.readline()), folder)


class Child:
    """A harness process."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self._folder = folder

    @property
    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> bool:
        """Kill it and wait for its end; tells whether it was still alive."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.join()
        return True

    def join(self, seconds: float = 60) -> None:
        """Wait for its end."""
        deadline = time.monotonic() + seconds
        while self.alive:
            assert time.monotonic() < deadline, "the harness does not end"
            time.sleep(0.002)

    def reaches(self, *words: str, times: int = 1, seconds: float = 60) -> None:
        """Wait until its journal has as many lines that begin with these words."""
        deadline = time.monotonic() + seconds
        while [tuple(line[: len(words)]) for line in journal_of(self._folder)].count(words) < times:
            assert time.monotonic() < deadline, f"the harness does not get to {words}"
            time.sleep(0.002)


def journal_of(folder: Path) -> list[list[str]]:
    """The lines of a journal, as words."""
    try:
        text = (folder / "journal").read_text("utf-8")
    except FileNotFoundError:
        return []
    return [line.split(" ") for line in text.splitlines() if line]


if __name__ == "__main__":
    main()
