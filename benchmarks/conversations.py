"""A conversation with an agent, for benchmarks; imported by processes whose memory is measured."""

import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from terret_agents import Agents
from terret_loader import open_harness

TURNS = 200

HARNESS = """\
plugins:
  llm: {}
  sessions: {}
  system-prompt: {includeHarnessIdentity: false}
  agents: {}
  tools: {}
  tools-demo: {}
  llm-openai: {baseUrl: "URL"}
  agent-loop: {agents: [{id: main, provider: openai, model: MODEL}]}
"""

Turn = Callable[[], Awaitable[None]]


async def terret(url: str, model: str, more: str = "") -> list[float]:
    """Hold a conversation with an agent and return the processor time of each turn."""
    with harness_file(url, model, more) as path:
        async with open_harness(path) as root:
            agent = root[Agents].named("main")
            assert agent is not None

            async def turn() -> None:
                agent.followup("hello")
                await agent.when_idle()

            times = await turn_times(turn)
            answer = agent.session.derive_messages()[-1]
            assert len(answer.text.split()) == int(model.rpartition("-")[2])
            return times


async def turn_times(turn: Turn) -> list[float]:
    """Return the processor time of each turn of a conversation, in microseconds."""
    await turn()
    gc.collect()
    times = []
    for _ in range(TURNS):
        start = time.process_time_ns()
        await turn()
        times.append((time.process_time_ns() - start) / 1000)
    return times


@contextmanager
def harness_file(url: str, model: str, more: str = "") -> Iterator[Path]:
    """Write a harness that talks to a server, and yield its path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "harness.yml"
        text = (HARNESS + more).replace("URL", url).replace("MODEL", model)
        path.write_text(text, "utf-8")
        yield path


@contextmanager
def model_server() -> Iterator[str]:
    """Run the server and yield its base address."""
    command = [sys.executable, str(Path(__file__).with_name("model_server.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.terminate()
