"""The program as a process, at a terminal and without one: what only shows there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from obedient_project import REFUND, write_obedient
from typists import at_terminal

pytestmark = pytest.mark.skipif(os.name == "nt", reason="terminals of POSIX")


Run = Callable[..., tuple[int, str, str]]
PROMPT = "\n>"
FULL = "[Errno 28] No space left on device"
HAS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TERRET_ROOT", raising=False)
    return write_obedient(tmp_path)


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    """Starts the program where it has no terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", "terret", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_start(folder: Path, process: "subprocess.Popen[str]") -> None:
    """Waits for the body of a tool, which nothing here can be notified of."""
    while not (folder / "started").exists():
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.02)


def test_an_approval_is_asked_at_the_terminal_when_its_event_is_out(project: Path) -> None:
    """E-133, E-239, E-240, E-341: Edited, allowed, and never on standard output."""
    reading, writing = os.pipe()
    order = f"{REFUND}; shout {{}}"
    with at_terminal(project, "run", "--json", order, stdout=writing) as typist:
        os.close(writing)
        typist.see("shop wants to run refund (matched rule 'careful')")
        rows = os.read(reading, 65_536).decode()
        typist.see("Run it? [y/n/a/e, ? explains] ")
        typist.type("e\n")
        typist.see("Change which?")
        typist.type("amount=20\n")
        assert "amount  20" in typist.see("Run it?")
        typist.type("y\n")
        code, _ = typist.end()
    with open(reading) as rest:
        events = [json.loads(line) for line in (rows + rest.read()).splitlines()]
    assert code == 0
    assert json.loads(rows.splitlines()[-1])["type"] == "approval:pending"
    assert (events[0]["type"], events[-1]["type"]) == ("session", "done")
    started = next(event for event in events if event["type"] == "tool:started")
    assert started["args"] == {"order": "A-77", "amount": 20}


def test_a_chat_streams_and_ctrl_c_stops_a_turn_then_the_chat(project: Path) -> None:
    """E-248"""
    with at_terminal(project, "chat", "--session", "s") as typist:
        typist.see(PROMPT)
        typist.type("hello\n")
        typist.see("You said: hello")
        typist.see(PROMPT)
        typist.type("hang {}\n")
        typist.see("-> hang {}")
        typist.type("\x03")
        typist.see("error: cancelled (user)")
        typist.see(PROMPT)
        typist.type("\x03")
        typist.see("Ctrl-C again ends the chat")
        typist.see(PROMPT)
        typist.type("\x03")
        assert typist.end()[0] == 130


def test_a_chat_takes_pasted_lines_asks_and_ends_with_ctrl_d(project: Path) -> None:
    """E-248, E-371"""
    with at_terminal(project, "chat") as typist:
        typist.see(PROMPT)
        typist.type("\x1b[200~one\ntwo\x1b[201~\n")
        typist.see("You said: one\ntwo")
        typist.see(PROMPT)
        typist.type('system_ask_user {"question": "Which?", "options": ["red", "blue"]}\n')
        typist.see("Number or answer: ")
        typist.type("2\n")
        typist.see("It gave: blue")
        typist.see(PROMPT)
        typist.type("\x04")
        assert typist.end()[0] == 0


def test_without_a_terminal_nobody_is_asked(project: Path) -> None:
    """E-241: A call that needs a person is denied, by the name of who runs this."""
    process = start(project, "run", REFUND)
    out, err = process.communicate()
    assert (process.returncode, out) == (4, "Stopped: a person denied refund.\n")
    assert "(--on-ask deny)" in err


def test_nobody_is_asked_in_the_background_of_a_terminal(project: Path) -> None:
    """E-241: The system would stop the process that reads there."""
    job = f"{sys.executable} -m terret run '{REFUND}' & wait $!; echo ended with $?"
    with at_terminal(project, "-mc", job, program=("sh",)) as typist:
        typist.see("(--on-ask deny)")
        typist.see("ended with 4")


def test_an_interrupted_turn_keeps_its_events_and_goes_on_later(project: Path, terret: Run) -> None:
    """E-243"""
    process = start(project, "run", "--json", "--session", "s", "hang {}")
    wait_for_start(project, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    events = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 143
    kinds = [event["type"] for event in events]
    assert kinds[:4] == ["session", "budget:check", "actauth:decision", "tool:started"]
    assert events[-1] == {"type": "error", "error": "aborted: user"}
    assert err.splitlines()[0] == "error: cancelled (user)"
    assert terret("run", "--session", "s", "hello")[:2] == (0, "You said: hello\n")


def test_a_second_interrupt_ends_the_process_whatever_holds_it(project: Path) -> None:
    """E-244"""
    process = start(project, "run", "--session", "s", "block {}")
    wait_for_start(project, process)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("redirection", "code", "complaint"),
    [
        (">&-", 1, "terret: standard output is closed\n"),
        pytest.param(">/dev/full", 1, f"terret: standard output: {FULL}\n", marks=HAS_FULL),
        ("2>&-", 0, ""),
    ],
)
def test_streams_that_are_not_there_are_no_traceback(
    project: Path, redirection: str, code: int, complaint: str
) -> None:
    """E-245"""
    command = f"exec {sys.executable} -m terret run --quiet hi {redirection}"
    ended = subprocess.run(["sh", "-c", command], cwd=project, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.removesuffix("error: cancelled (user)\n")) == (
        code,
        complaint,
    )


def test_a_thread_that_a_tool_left_behind_keeps_no_process(project: Path) -> None:
    process = start(project, "run", "leave {}")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "It gave: done\n")


def test_two_runs_of_one_session_come_one_after_the_other(project: Path, terret: Run) -> None:
    """E-257: The second one waits, or is refused when that takes too long."""
    first = start(project, "run", "--session", "s", "hang {}")
    wait_for_start(project, first)
    impatient = ("--set", "session-jsonl.leaseWaitSeconds=0")
    code, out, err = terret("run", "--session", "s", *impatient, "two")
    assert (code, out) == (2, "")
    assert f"is being written by process {first.pid}" in err
    second = start(project, "run", "--session", "s", "three")
    assert second.stderr is not None
    assert "waiting for a session" in second.stderr.readline()
    first.send_signal(signal.SIGINT)
    first.communicate()
    out, _ = second.communicate()
    assert (second.returncode, out) == (0, "You said: three\n")


def test_two_runs_that_begin_a_session_come_one_after_the_other(project: Path, terret: Run) -> None:
    """E-257: Whichever comes first; each has its turn."""
    both = [start(project, "run", "--session", "s", text) for text in ("one", "two")]
    outs = [process.communicate()[0] for process in both]
    assert outs == ["You said: one\n", "You said: two\n"]
    _, shown, _ = terret("sessions", "show", "s", "--agent", "shop")
    assert shown.count("ended     completed") == 2
