"""`terret dev`: processes that follow the files of a project."""

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from programs import Program, ask, events, new_project, program, say

Run = Callable[..., tuple[int, str, str]]
SUMS = "agents/main/tools/sums.py"


@pytest.fixture
def project(tmp_path: Path, environment: None) -> Path:
    return new_project(tmp_path)


@pytest.fixture
def dev(project: Path) -> Iterator[Program]:
    with program(project, "dev") as running:
        running.address()
        yield running


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def change(project: Path, files: Mapping[str, str]) -> None:
    """Replaces files, as close together as can be."""
    for number, text in enumerate(files.values()):
        (project / f".{number}").write_text(text)
    for number, name in enumerate(files):
        os.replace(project / f".{number}", project / name)


def is_free(address: str) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", urlsplit(address).port or 0)) != 0


def test_agents_rules_and_prompts_count_without_a_restart(project: Path, dev: Program) -> None:
    """E-260, E-262, E-263: a running turn finishes as it began."""
    address, main = dev.address(), project / "agents/main"
    edit(main / "permissions.yml", "decision: allow", "decision: ask")
    asked = say(address, 'use add {"a": 1, "b": 2}', sessionId="one")
    assert asked["type"] == "approval"
    (main / "agent.yml").write_text("systemPrompt: New\n")
    shop = project / "agents/.shop"
    shop.mkdir()
    (shop / "agent.yml").write_text("promptFile: words.txt\n")
    (shop / "words.txt").write_text("Buy\n")
    shop.rename(project / "agents/shop")
    dev.line("agents: main, shop")
    assert ask(address + asked["approveUrl"], {})[1]["text"] == "Old: 3.0"
    assert say(address, "Hello.", sessionId="one")["text"] == "New: Hello."
    assert say(address, "Hello.", agent="shop")["text"] == "Buy: Hello."
    (project / "agents/shop/agent.yml").write_text("prompt: Sell\n")
    dev.line("agents/shop/agent.yml:1:1 prompt: unknown key")
    assert say(address, "Hello.", agent="shop")["text"] == "Buy: Hello."
    shutil.rmtree(project / "agents/shop")
    dev.line("no faults any more")
    assert dev.lines[-2] == "agents: main"
    assert ask(f"{address}/agents")[1]["agents"][0]["name"] == "main"
    assert len([line for line in dev.lines if "listening" in line]) == 1


def test_changed_code_restarts_the_service(project: Path, dev: Program) -> None:
    """E-264, E-265, E-266: once for many files; sessions go on, and code that cannot be loaded
    leaves the service as it is."""
    (project / ".terret/note.py").write_text("not a module of the project")
    first = say(dev.address(), 'use add {"a": 1, "b": 2}', sessionId="one")
    assert first["text"] == "Old: 3.0"
    sums = (project / SUMS).read_text().replace("return a + b", "return a + b + 0.5")
    mirror = (project / "mirror.py").read_text()
    change(project, {SUMS: sums, ".env": "X=1\n", "mirror.py": mirror + "# changed\n"})
    address = dev.address(times=2)
    assert say(address, 'use add {"a": 1, "b": 2}', sessionId="one")["text"] == "Old: 3.5"
    rest = f"after={first['cursor']}&follow=turn"
    with events(f"{address}/agents/main/sessions/one/events?{rest}") as lines:
        names = [line for line in lines if line.startswith(b"event: ")]
    assert names[0] == b"event: session\n"
    assert names.count(b"event: done\n") == 1

    edit(project / SUMS, "return", "return return")
    dev.line(f"{SUMS}:14:12: cannot be imported: SyntaxError: invalid syntax")
    dev.line("the service that runs goes on")
    assert say(address, 'use add {"a": 1, "b": 1}', sessionId="one")["text"] == "Old: 2.5"
    edit(project / SUMS, "from terret_tools", "import os\n\nos._exit(3)\nfrom terret_tools")
    dev.line("the service that runs goes on", times=2)
    edit(project / SUMS, "import os\n\nos._exit(3)\n", "")
    edit(project / SUMS, "return return a + b + 0.5", "return a * b")
    address = dev.address(times=3)
    assert say(address, 'use add {"a": 2, "b": 3}', sessionId="one")["text"] == "Old: 6.0"
    assert dev.end(signal.SIGINT) == 0
    assert is_free(address)
    assert len([line for line in dev.lines if "listening" in line]) == 3


def test_the_file_is_followed_in_the_running_service(project: Path, dev: Program) -> None:
    """E-265: one with faults changes nothing; a new `http` listens again, in the same process."""
    address, harness, process = dev.address(), project / "harness.yml", child_of(dev)
    edit(harness, "  mirror:", "  nope: {}\n  mirror:")
    dev.line('no plugin \\"nope\\" is installed')
    assert say(address, "Hello.")["text"] == "Old: Hello."
    edit(harness, "  nope: {}\n", "  budget: null\n")
    dev.line("budget: removed")
    edit(harness, "port: 0", "port: 0, basePath: /api")
    address = f"{dev.address(times=2)}/api"
    done = say(address, "Hello.")
    assert done["events"][1]["budgetTokens"] == 0
    assert child_of(dev) == process


def test_a_project_that_cannot_start_is_waited_for(project: Path) -> None:
    """E-265, E-280: agents with faults do not keep the others from being served."""
    edit(project / "harness.yml", "  mirror:", "  nope: {}\n  mirror:")
    (project / "agents/shop").mkdir()
    (project / "agents/shop/agent.yml").write_text("prompt: Sell\n")
    with program(project, "dev") as running:
        running.line('no plugin "nope" is installed')
        running.line("it starts again with the next change")
        edit(project / "harness.yml", "  nope: {}\n", "")
        address = running.address()
        running.line("agents/shop/agent.yml:1:1 prompt: unknown key")
        assert running.line("listening on").endswith("agents: main")
        statuses = {each["name"]: each["status"] for each in ask(f"{address}/agents")[1]["agents"]}
        assert statuses == {"main": "ok", "shop": "unavailable"}
        assert running.end(signal.SIGTERM) == 0


def test_variables_that_cannot_be_read_end_it(terret: Run, project: Path) -> None:
    """E-247."""
    (project / ".env").write_text("A=1\nsecret text\n")
    code, out, err = terret("dev")
    assert (code, out) == (2, "")
    assert err.startswith(".env:2:")
    assert "secret" not in err


def test_a_port_that_is_in_use_ends_it(project: Path) -> None:
    """E-250."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with program(project, "dev", "--port", str(port)) as running:
            assert running.end() == 2
            assert f"cannot listen on port {port}" in running.lines[-1]


def test_a_second_signal_kills_the_service(project: Path, dev: Program) -> None:
    """E-268: while a turn waits for somebody."""
    edit(project / "agents/main/permissions.yml", "decision: allow", "decision: ask")
    address = dev.address()
    body = {"message": 'use add {"a": 1, "b": 2}'}
    with events(f"{address}/agents/main/messages/stream", body) as stream:
        next(line for line in stream if line == b"event: approval:pending\n")
        dev.process.send_signal(signal.SIGINT)
        dev.line("stopping; a second signal ends at once")
        assert dev.end(signal.SIGINT) == 130
    assert is_free(address)


def test_neither_process_is_left_alone(project: Path, dev: Program) -> None:
    """E-267: a service that dies comes back; without `dev` it ends, and frees the port."""
    os.kill(child_of(dev), signal.SIGKILL)
    dev.line("the service has ended (SIGKILL); it starts again with the next change")
    (project / "agents/main/prompt.md").touch()
    address = dev.address(times=2)
    assert say(address, "Hello.")["text"] == "Old: Hello."
    assert dev.end(signal.SIGKILL) == -signal.SIGKILL
    assert is_free(address)


def child_of(running: Program) -> int:
    task = f"/proc/{running.process.pid}/task/{running.process.pid}/children"
    return int(Path(task).read_text().split()[0])
