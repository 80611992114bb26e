"""The file changes while the harness runs: what it does not touch goes on."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TextIO

import pytest

from end_to_end import ChatServer, Project
from terret_agents import Agents
from terret_context import Fiber
from terret_llm import Llm
from terret_loader import Loader, open_harness
from terret_testing import pause, reply, say, script

HARNESS = """
plugins:
  llm: {}
  sessions: {}
  system-prompt: {}
  agents: {}
  tools: {maxThreads: 4}
  part: {use: ./part.py, size: 1}
  agent-loop: {agents: [{id: main, provider: scripted, model: any}]}
"""
PART = """
from terret_context import Config, plugin

class PartConfig(Config):
    size: int = 0

sizes = []

@plugin(config=PartConfig)
def part(ctx, config):
    sizes.append(config.size)
"""


async def test_a_running_turn_goes_on_while_other_entries_change(tmp_path: Path) -> None:
    """C-073, C-342: a wrong file changes nothing either."""
    (tmp_path / "part.py").write_text(PART)
    path = tmp_path / "harness.yml"
    path.write_text(HARNESS)
    model = script(reply(pause("middle"), say("one")))
    async with open_harness(path) as root:
        loader, agents = root[Loader], root[Agents]
        root[Llm].register_adapter("scripted", model)
        agent = agents.named("main")
        assert agent is not None
        before = {entry.path: loader.fiber(entry.path) for entry in loader.entries}
        agent.send("hello")
        await model.reached("middle")
        path.write_text(HARNESS.replace("size: 1", "siez: 1"))
        (fault,) = await loader.reconcile()
        assert "plugins.part.siez: unknown key" in str(fault)
        path.write_text(HARNESS.replace("size: 1", "size: 2"))
        assert await loader.reconcile() == ()
        assert sizes_of(loader.fiber("part")) == [1, 2]
        assert {entry.path: loader.fiber(entry.path) for entry in loader.entries} == before
        model.release("middle")
        await agent.when_idle()
        assert agents.named("main") is agent
        assert [message.text for message in agent.session.derive_messages()] == ["hello", "one"]


def sizes_of(fiber: Fiber | None) -> list[int]:
    assert fiber is not None
    assert fiber.plugin is not None
    sizes: list[int] = fiber.plugin.body.__globals__["sizes"]
    return sizes


class Conversation:
    """Writes to a process, and waits until it has said something."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._said = ""
        self._changed = threading.Condition()
        for stream in (process.stdout, process.stderr):
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def wait_for(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self._said, timeout=60), self._said

    def _read(self, stream: TextIO) -> None:
        for line in stream:
            with self._changed:
                self._said += line
                self._changed.notify_all()


def test_a_chat_follows_the_file_and_goes_on_with_its_session(
    project: Project, chat_server: ChatServer
) -> None:
    """C-206, C-343: another model from the next message on, with the same conversation."""
    project.harness(chat_server.url("ok"), tools="tools-demo: {}")
    path = project.folder / "harness.yml"
    good = path.read_text()
    with project.start("chat", "--session", "s", stdin=subprocess.PIPE) as process:
        chat = Conversation(process)
        chat.wait_for("session s\n")
        chat.send("What is 17 + 25? Use the add tool.")
        chat.wait_for("The result is 42.")
        path.write_text(good.replace("model: test", "modl: test"))
        chat.wait_for('agents[0].modl: unknown key (did you mean "model"?)')
        path.write_text(good.replace("model: test", "model: other").replace("tools-demo: {}", ""))
        chat.wait_for("agent-loop: changed")
        chat.wait_for("tools-demo: removed")
        chat.send("and now?")
        chat.wait_for("You said: and now?")
        chat.send("/quit")
        assert process.wait(60) == 0
    assert [request["model"] for request in chat_server.requests] == ["test", "test", "other"]
    messages = chat_server.requests[-1]["messages"]
    assert isinstance(messages, list)
    asked = [message["content"] for message in messages if message["role"] == "user"]
    assert asked == ["What is 17 + 25? Use the add tool.", "and now?"]


BLOCKED = """
import time
from pathlib import Path
from terret_context import plugin

@plugin
def blocked(ctx):
    Path("started").touch()
    while True:
        time.sleep(60)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_the_second_interrupt_ends_a_process_that_a_plugin_blocks(project: Project) -> None:
    """The event loop never gets to handle the first one."""
    project.write("blocked.py", BLOCKED)
    project.write("harness.yml", "plugins: {blocked: {use: ./blocked.py}}")
    with project.start("run", "hi") as process:
        while not (project.folder / "started").exists():
            assert process.poll() is None
            time.sleep(0.02)  # polls another process, which nothing here can be notified of
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)  # two signals that come together are one
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
