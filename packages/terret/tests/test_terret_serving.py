"""`terret serve`."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from programs import ask, events, new_project, program, say

STREAM = "/agents/main/messages/stream"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def project(tmp_path: Path, terret: Run) -> Path:
    return new_project(tmp_path)


@pytest.fixture
def taken() -> Iterator[list[int]]:
    """Three ports on which somebody listens."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    yield [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()


def test_a_flag_beats_a_variable_beats_the_file(
    terret: Run, project: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-540, E-250, E-246: seen by the port that is in use; nothing was started."""
    first, second, third = taken

    def refused(*words: str) -> str:
        code, out, err = terret("serve", *words)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        return err.removeprefix("terret: cannot listen on port ").partition(":")[0]

    harness = project / "harness.yml"
    harness.write_text(harness.read_text().replace("port: 0", f"port: {first}"))
    assert refused() == f"{first} of 127.0.0.1"
    (project / ".env").write_text(f"PORT={third}\n")
    assert refused() == f"{third} of 127.0.0.1"
    monkeypatch.setenv("PORT", str(second))
    assert refused() == f"{second} of 127.0.0.1"
    monkeypatch.setenv("TERRET_PORT", str(first))
    monkeypatch.setenv("TERRET_HOST", "localhost")
    assert refused() == f"{first} of localhost"
    assert refused("--port", str(third), "--host", "127.0.0.1") == f"{third} of 127.0.0.1"
    assert list((project / ".terret").rglob("*.jsonl")) == []


def test_the_address_is_this_machine_at_port_8787(terret: Run, project: Path) -> None:
    """E-200."""
    (project / "harness.yml").write_text("extends: [service]\n")
    _, out, _ = terret("config", "show", "--origin")
    assert 'http.host = "127.0.0.1"' in out
    assert "http.port = 8787" in out


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TERRET_PORT", "web", 'TERRET_PORT: "web" is no port (0 to 65535)'),
        ("PORT", "65536", 'PORT: "65536" is no port (0 to 65535)'),
        ("TERRET_LOG", "loud", 'TERRET_LOG: there is no log level "loud"'),
        ("TERRET_DATA", "harness.yml", "session-jsonl: nothing can be written in"),
        ("TERRET_HOST", "0.0.0.0", "TERRET_API_TOKEN"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(
    terret: Run,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    message: str,
) -> None:
    """E-541, E-201: before the port is opened."""
    monkeypatch.setenv(name, value)
    code, out, err = terret("serve")
    assert (code, out) == (2, "")
    assert message in err


def test_all_faults_of_all_agents_are_listed(terret: Run, project: Path) -> None:
    """E-280: those of rules too."""
    (project / "agents/main/permissions.yml").write_text("default: perhaps\n")
    (project / "agents/shop").mkdir()
    (project / "agents/shop/agent.yml").write_text("promt: hi\nmaxTurns: 0\n")
    code, out, err = terret("serve")
    assert (code, out) == (2, "")
    places = [line.partition(": ")[0] for line in err.splitlines()]
    assert set(places) == {
        "agents/main/permissions.yml:1:10 default",
        "agents/shop/agent.yml:1:1 promt",
        "agents/shop/agent.yml:2:11 maxTurns",
    }
    assert len(places) == 3


def test_faults_of_the_file_read_the_same_everywhere(terret: Run, project: Path) -> None:
    """E-568."""
    harness = project / "harness.yml"
    harness.write_text(harness.read_text() + "  nope: {}\n  budget: {perhaps: 1}\n")
    commands = ("serve",), ("run", "hi"), ("chat",), ("config", "check")
    (first, *others) = [terret(*words) for words in commands]
    assert first[:2] == (2, "")
    assert len(first[2].splitlines()) == 2
    assert others == [first] * 3


def test_the_service_needs_its_plugin(terret: Run, project: Path) -> None:
    (project / "harness.yml").write_text("extends: [service]\nplugins: {http: null}\n")
    expected = "terret: the plugin http is not mounted; add `http: {}` to harness.yml\n"
    assert terret("serve") == (2, "", expected)


def test_a_new_project_serves_and_ends_in_order(terret: Run, project: Path) -> None:
    """E-190, E-191, E-251, E-254: what is open at the first signal may end."""
    rules = project / "agents/main/permissions.yml"
    rules.write_text(rules.read_text().replace("decision: allow", "decision: ask"))
    code, out, _ = terret("run", "--session", "one", "Hello.")
    assert (code, out) == (0, "Old: Hello.\n")
    with program(project, "serve") as served:
        address = served.address()
        assert ask(f"{address}/readyz")[0] == 200
        assert say(address, "And?", sessionId="one")["text"] == "Old: And?"
        asked = say(address, 'use add {"a": 1, "b": 2}', sessionId="one")
        assert asked["tool"] == "add"
        served.process.terminate()
        served.line("stopping; a second signal ends at once")
        assert say(address, "More?")["code"] == "draining"
        done = ask(address + asked["approveUrl"], {})[1]
        assert done["events"][-1]["type"] == "done"
        assert served.end() == 0
    _, shown, _ = terret("sessions", "show", "one", "--agent", "main")
    assert [line for line in shown.splitlines() if line.startswith("turn")] == [
        "turn 1",
        "turn 2",
        "turn 3",
    ]


BLOCK = '''
import threading

from terret_tools import tool


@tool
def block() -> None:
    """Never comes back."""
    threading.Event().wait()
'''


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_whatever_runs(
    terret: Run, project: Path, number: signal.Signals
) -> None:
    """E-193: a turn that it interrupted is closed by the next start, and the session goes on."""
    (project / "agents/main/tools/sums.py").write_text(BLOCK)
    rules = project / "agents/main/permissions.yml"
    rules.write_text(rules.read_text().replace("tool: add", "tool: block"))
    with (
        program(project, "serve") as served,
        events(f"{served.address()}{STREAM}", {"message": "use block", "sessionId": "s"}) as stream,
    ):
        next(line for line in stream if line == b"event: tool:started\n")
        served.process.send_signal(number)
        served.line("stopping")
        assert served.end(number) == 128 + number
    code, out, _ = terret("run", "--session", "s", "Go on.")
    assert (code, out) == (0, "Old: Go on.\n")
    assert "interrupted" in terret("sessions", "show", "s", "--agent", "main")[1]
