"""`terret chat` in this process, with lines that come from standard input."""

import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from obedient_project import REFUND, write_obedient

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Path:
    return write_obedient(tmp_path)


@pytest.fixture
def chat(terret: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Has a chat of these lines."""

    def run(*lines: str, flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", StringIO("".join(f"{line}\n" for line in lines)))
        return terret("chat", "--session", "s", *flags)

    return run


def test_a_chat_is_answers_and_nothing_else_on_standard_output(chat: Run) -> None:
    """E-248: Tools and plugins print on standard error; the end of the input is the end."""
    code, out, err = chat("hello", "shout {}", "at once")
    assert (code, out) == (0, "You said: hello\nIt gave: done\nYou said: at once\n")
    assert err.startswith("session s\nCtrl-C or /cancel stops a turn")
    assert "-> shout {}\na tool prints\n<- done\n" in err


def test_commands_are_no_messages(chat: Run) -> None:
    """E-248: What follows `/quit` is not read."""
    code, out, err = chat("/session", "/help", "", "/etc/hosts is odd", "/quit", "more")
    assert (code, out) == (0, "You said: /etc/hosts is odd\n")
    assert err.splitlines()[2] == "s"
    assert err.count("/quit ends") == 2


def test_a_turn_can_be_cancelled_by_a_line(chat: Run, terret: Run) -> None:
    """E-248: The next message goes on."""
    code, out, err = chat("hang {}", "/cancel", "hello")
    assert (code, out) == (0, "You said: hello\n")
    assert "error: cancelled (user)" in err
    _, shown, _ = terret("sessions", "show", "s", "--agent", "shop")
    assert [line.strip() for line in shown.splitlines() if "ended" in line] == [
        "ended     cancelled (user)",
        "ended     completed",
    ]


def test_a_failed_turn_does_not_end_the_chat(chat: Run) -> None:
    code, out, err = chat("fail", "hello")
    assert (code, out) == (0, "You said: hello\n")
    assert "error: RuntimeError: no connection to the model" in err


def test_a_request_that_is_made_again_is_told(chat: Run) -> None:
    """What had come of the answer is no part of it."""
    code, out, err = chat("falter")
    assert (code, out) == (0, "You \nYou said: falter\n")
    assert "waiting 1 s: the server hung up (retry 1 of 5)\n(the answer begins anew)\n" in err


def test_lines_are_answers_while_something_is_asked(chat: Run) -> None:
    """E-239, E-341: Else they are messages, one after the other."""
    code, out, err = chat(REFUND, "y", "thanks", flags=("--on-ask", "prompt"))
    assert (code, out.splitlines()[-1]) == (0, "You said: thanks")
    assert "allowed by " in err


def test_nobody_is_asked_where_there_is_no_terminal(chat: Run) -> None:
    """E-241"""
    code, out, err = chat(REFUND, "y")
    assert (code, out) == (0, "Stopped: a person denied refund.\nYou said: y\n")
    assert "(--on-ask deny)" in err


def test_which_agent_it_is(terret: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """E-235, E-249"""
    monkeypatch.setattr("sys.stdin", StringIO("hi\n"))
    assert terret("chat", "shop")[:2] == (0, "You said: hi\n")
    code, out, err = terret("chat", "nobody")
    assert (code, out) == (2, "")
    assert err == 'terret: there is no agent "nobody" (known: shop)\n'


REAPER = """
import os
from functools import partial
from terret_agents import STATUS
from terret_context import plugin

@plugin(inject=("agentFolders",))
def reaper(ctx):
    lines = [b"two\\n", b"/quit\\n"]

    async def release(agent):
        await ctx.agentFolders.release(agent)
        os.write(int(os.environ["TYPIST"]), lines.pop(0))

    def idle(change):
        if change.status == "idle":
            ctx.spawn(partial(release, change.agent))

    ctx.on(STATUS, idle)
"""


def test_an_agent_that_was_taken_down_comes_back(
    terret: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-292: It is gone when the second line comes, and goes on with its log."""
    (project / "reaper.py").write_text(REAPER)
    with (project / "harness.yml").open("a") as harness:
        harness.write("  reaper: {use: ./reaper.py}\n")
    reading, writing = os.pipe()
    os.write(writing, b"one\n")
    monkeypatch.setenv("TYPIST", str(writing))
    with open(reading) as stdin, open(writing, "w"):
        monkeypatch.setattr("sys.stdin", stdin)
        code, out, _ = terret("chat", "--session", "s")
    assert (code, out) == (0, "You said: one\nYou said: two\n")
    assert "2 turns" in terret("sessions", "show", "s", "--agent", "shop")[1]
